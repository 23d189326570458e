//! Valid and invalid configurations.

use runloom_ports::secret::Secret;

use super::mistakes::MISTAKES;
use super::*;

fn check(text: &str, variables: &[(&str, &str)]) -> Result<Config, Vec<String>> {
    let environment: Environment = variables.iter().copied().collect();
    parse(text, "f.toml", &environment)
        .map_err(|invalid| invalid.problems.iter().map(ToString::to_string).collect())
}

/// A configuration with every kind of section.
const EXAMPLE: &str = r#"
[server]
listen = "127.0.0.1:8787"
public_url = "http://127.0.0.1:8787/"
[outbound]
allow_hosts = ["127.0.0.1:9000", "*.internal.example"]
[[workspaces]]
slug = "acme"
name = "Acme"
default_model = "oa/gpt-5.5"
monthly_budget_usd = 250
[[workspaces.api_keys]]
name = "ci"
key_env = "ACME_KEY"
monthly_budget_usd = 12.5
usage = "developer_api"
agent_ids = []
[[workspaces.providers]]
id = "oa"
kind = "openai"
base_url = "https://api.openai.com/v1"
api_key_env = "OPENAI_API_KEY"
models = [ { id = "gpt-5.5", context_window = 400000, reasoning = true,
             pricing = { input = 1.25, output = 10.0, cache_read = 0.125 } } ]
[[workspaces.providers]]
id = "aws"
kind = "bedrock"
region = "eu-north-1"
secret_access_key_env = "AWS_SECRET"
[[workspaces.agents]]
slug = "support"
system_prompt = "You answer support questions."
model = "oa/gpt-5.5"
tools = [ { kind = "mcp", name = "docs", url = "http://127.0.0.1:9100/mcp" } ]
[[workspaces.tools]]
slug = "weather"
type = "http"
url = "https://weather.example"
[[workspaces.plugins]]
slug = "math"
tools = [ { name = "add", type = "code", source = "return args.a + args.b", memory_mb = 32 } ]
[[workspaces.external_agents]]
slug = "peer"
agent_card_url = "https://peer.example/card"
headers = { Authorization = "Bearer {{secret:PEER}}" }
[[workspaces.secrets]]
name = "PEER"
value_env = "PEER_TOKEN"
[[workspaces.oauth_apps]]
client_id = "mantyx_oa_kit"
client_secret_env = "KIT_OAUTH_SECRET"
visibility = "private"
redirect_uris = ["http://127.0.0.1:9999/cb"]
scopes = ["runs:read", "runs:write"]
allow_client_credentials = true
"#;

#[test]
fn reads_an_empty_configuration() {
    let config = check("", &[]).unwrap();
    assert_eq!(config.server.listen, "127.0.0.1:8787");
    assert_eq!(config.store.sqlite, Path::new(".runloom/runloom.db"));
    assert_eq!(config.runs.max_tool_turns, 32);
    assert_eq!(config.limits.max_body_bytes, 8_388_608);
    assert_eq!(config.runs.retention_days, None);
    assert_eq!(config.session_retention_days, None);
    assert_eq!(config.platform.demo, None);
    assert!(config.dashboard);
    assert!(config.workspaces.is_empty() && config.warnings.is_empty());
}

#[test]
fn reads_every_section() {
    let variables = [
        ("ACME_KEY", "mantyx_0123456789abcdefghijkl"),
        ("OPENAI_API_KEY", "sk-1"),
        ("AWS_SECRET", "hush"),
        ("KIT_OAUTH_SECRET", "mantyx_oas_x"),
        ("PEER_TOKEN", "hush-hush"),
    ];
    let config = check(EXAMPLE, &variables).unwrap();
    assert_eq!(
        config.server.public_url.as_deref(),
        Some("http://127.0.0.1:8787")
    );
    let workspace = &config.workspaces[0];
    assert_eq!(workspace.monthly_budget_usd, Some(250.0));
    assert_eq!(workspace.api_keys[0].monthly_budget_usd, Some(12.5));
    assert_eq!(
        workspace.api_keys[0].key.expose(),
        "mantyx_0123456789abcdefghijkl"
    );
    let model = &workspace.providers[0].models[0];
    assert_eq!(model.pricing.unwrap().cache_read, Some(0.125));
    let extra = &workspace.providers[1].extra;
    assert_eq!(
        (
            extra["region"].as_str(),
            extra["secret_access_key"].as_str()
        ),
        (Some("eu-north-1"), Some("hush"))
    );
    assert_eq!(
        workspace.tools[0].definition["url"],
        "https://weather.example"
    );
    let warnings: Vec<_> = config
        .warnings
        .iter()
        .map(|one| one.path.as_str())
        .collect();
    assert_eq!(warnings, ["workspaces[0].oauth_apps[0].client_secret_env"]);
    let shown = format!("{config:?}");
    assert!(
        !shown.contains("hush") && !shown.contains("sk-1") && !shown.contains("0123456789abc"),
        "{shown}"
    );
}

#[test]
fn locates_every_kind_of_mistake() {
    for (text, expected) in MISTAKES {
        assert_eq!(
            check(text, &[("SECRET", "hush, hush, hush, hush, hush")])
                .map(|_| ())
                .unwrap_err(),
            [*expected],
            "{text}"
        );
    }
}

#[test]
fn refuses_unusable_schemas() {
    let bad = "{ type = \"object\", properties = { a = { type = \"zzz\" } } }";
    let tool = |key: &str| {
        format!(
            "[[workspaces]]\nslug = \"a\"\n[[workspaces.tools]]\nslug = \"t\"\ntype = \"code\"\nsource = \"return 1\"\n{key} = {bad}"
        )
    };
    let plugin = format!(
        "[[plugins]]\nslug = \"p\"\n[[plugins.tools]]\nname = \"t\"\ntype = \"code\"\nsource = \"return 1\"\nparameters = {bad}"
    );
    for (text, place) in [
        (
            tool("parameters"),
            "f.toml:7: workspaces[0].tools[0].parameters: ",
        ),
        (
            tool("output_schema"),
            "f.toml:7: workspaces[0].tools[0].output_schema: ",
        ),
        (plugin, "f.toml:7: plugins[0].tools[0].parameters: "),
    ] {
        let problems = check(&text, &[]).map(|_| ()).unwrap_err();
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(
            problems[0].starts_with(place) && problems[0].contains("zzz"),
            "{problems:?}"
        );
    }
}

#[test]
fn warns_about_undeclared_tools_and_secrets() {
    let text = "[[workspaces]]\nslug = \"a\"\n\
                [[workspaces.agents]]\nslug = \"x\"\nsystem_prompt = \"p\"\n\
                tools = [{ kind = \"mantyx\", id = \"t\" }, { kind = \"mantyx\", id = \"later\" }, { kind = \"mantyx\", id = \"tool_1\" }]\n\
                [[workspaces.tools]]\nslug = \"t\"\ntype = \"code\"\nsource = \"return 1\"\nsecrets = [\"A\", \"B\"]\n\
                [[workspaces.secrets]]\nname = \"A\"\nvalue_env = \"A\"";
    let config = check(text, &[("A", "clear")]).unwrap();
    let warnings: Vec<String> = config.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(
        warnings[0].contains("`x`, tools[1].id: this file declares no tool `later`"),
        "{warnings:?}"
    );
    assert!(
        warnings[1].contains("`t`, secrets[1]: this file declares no secret `B`"),
        "{warnings:?}"
    );
}

#[test]
fn reports_all_problems_at_once() {
    let problems = check(
        "[server]\nlisten = 1\nbogus_setting_here = 1\n[log]\nlevel = 3\n",
        &[],
    )
    .unwrap_err();
    assert_eq!(problems.len(), 3, "{problems:?}");
    let problems = check("[server]\nlisten = \n", &[]).unwrap_err();
    assert!(problems[0].starts_with("f.toml:2: "), "{problems:?}");
}

#[test]
fn variables_override_the_file() {
    let file = "[server]\nlisten = \"127.0.0.1:1\"\n[[workspaces]]\nslug = \"a\"\n";
    let config = check(
        file,
        &[
            ("RUNLOOM_SERVER__LISTEN", "0.0.0.0:2"),
            ("RUNLOOM_LIMITS__RUN_STARTS_PER_MINUTE", "9"),
            ("RUNLOOM_OUTBOUND__ALLOW_PRIVATE_NETWORKS", "true"),
            ("RUNLOOM_OUTBOUND__ALLOW_HOSTS", "a, b:1"),
            ("RUNLOOM_WORKSPACES__0__NAME", "Renamed"),
            ("RUNLOOM_URL", "not a setting"),
        ],
    )
    .unwrap();
    assert_eq!(config.server.listen, "0.0.0.0:2");
    assert_eq!(config.limits.run_starts_per_minute, 9);
    assert!(config.outbound.allow_private_networks);
    assert_eq!(config.outbound.allow_hosts, ["a", "b:1"]);
    assert_eq!(config.workspaces[0].name, "Renamed");

    for (name, value, expected) in [
        (
            "RUNLOOM_SERVER__LISTNE",
            "a:1",
            "environment variable RUNLOOM_SERVER__LISTNE: server.listne: unknown key; did you mean `listen`?",
        ),
        (
            "RUNLOOM_LIMITS__WRITES_PER_MINUTE",
            "many",
            "environment variable RUNLOOM_LIMITS__WRITES_PER_MINUTE: limits.writes_per_minute: expected an integer from 1 to 4294967295, got `many`",
        ),
        (
            "RUNLOOM_WORKSPACES__7__NAME",
            "x",
            "environment variable RUNLOOM_WORKSPACES__7__NAME: workspaces.7.name: `7` leaves a gap: the array has 1 entries, numbered from 0",
        ),
        (
            "DATABASE_URL",
            "mysql://h/d",
            "environment variable DATABASE_URL: store.url: must be sqlite:PATH, like sqlite:.runloom/runloom.db, or postgres://USER:PASSWORD@HOST/DATABASE",
        ),
        (
            "REDIS_URL",
            "redis://h",
            "environment variable REDIS_URL: fabric.bus: needs a database that processes can share: set store.url to postgres://…, or use \"embedded\"",
        ),
        (
            "AMQP_URL",
            "amqp://h",
            "environment variable AMQP_URL: fabric.queue: needs a database that processes can share: set store.url to postgres://…, or use \"embedded\"",
        ),
    ] {
        assert_eq!(
            check(file, &[(name, value)]).map(|_| ()).unwrap_err(),
            [expected]
        );
    }
}

#[test]
fn variables_build_arrays() {
    let mut variables = vec![
        ("RUNLOOM_WORKSPACES__0__API_KEYS__0__KEY_ENV", "K"),
        ("K", "mantyx_0123456789abcdefghijkl"),
        ("RUNLOOM_WORKSPACES__0__PROVIDERS__0__ID", "oa"),
        ("RUNLOOM_WORKSPACES__0__PROVIDERS__0__KIND", "demo"),
        ("RUNLOOM_WORKSPACES__0__PROVIDERS__0__MODELS__0__ID", "m"),
        (
            "RUNLOOM_WORKSPACES__0__PROVIDERS__0__MODELS__0__PRICING__INPUT",
            "1.5",
        ),
        (
            "RUNLOOM_WORKSPACES__0__PROVIDERS__0__MODELS__0__PRICING__OUTPUT",
            "2",
        ),
        ("RUNLOOM_OUTBOUND__ALLOW_HOSTS__0", "a:1"),
    ];
    // More than ten, so that a sort by text would put the tenth before the second.
    let names: Vec<String> = (0..12)
        .map(|n| format!("RUNLOOM_WORKSPACES__{n}__SLUG"))
        .collect();
    let slugs: Vec<String> = (0..12).map(|n| format!("w{n}")).collect();
    variables.extend(
        names
            .iter()
            .map(String::as_str)
            .zip(slugs.iter().map(String::as_str)),
    );
    let config = check("", &variables).unwrap();
    let made: Vec<_> = config
        .workspaces
        .iter()
        .map(|one| one.slug.clone())
        .collect();
    assert_eq!(made, slugs);
    let model = &config.workspaces[0].providers[0].models[0];
    assert_eq!(
        (model.id.as_str(), model.pricing.unwrap().input),
        ("m", 1.5)
    );
    assert_eq!(config.workspaces[0].api_keys.len(), 1);
    assert_eq!(config.outbound.allow_hosts, ["a:1"]);

    assert_eq!(
        check("", &[("RUNLOOM_WORKSPACES__1__SLUG", "acme")])
            .map(|_| ())
            .unwrap_err(),
        [
            "environment variable RUNLOOM_WORKSPACES__1__SLUG: workspaces.1.slug: `1` leaves a gap: the array has 0 entries, numbered from 0"
        ]
    );
}

#[test]
fn ignores_shared_variables_on_request() {
    let environment: Environment = [
        ("DATABASE_URL", "mysql://h/d"),
        ("REDIS_URL", "redis://h"),
        ("AMQP_URL_FILE", "does/not/exist"),
    ]
    .into_iter()
    .collect();
    let shared: Vec<_> = environment.shared().collect();
    assert_eq!(shared, ["DATABASE_URL", "AMQP_URL", "REDIS_URL"]);
    let text = "[[workspaces]]\nslug = \"a\"\n[[workspaces.secrets]]\nname = \"DB\"\nvalue_env = \"DATABASE_URL\"";
    let config = parse(text, "f.toml", &environment.ignoring_shared()).unwrap();
    assert!(config.fabric.is_embedded() && config.store.postgres.is_none());
    assert_eq!(
        config.workspaces[0].secrets[0].value.expose(),
        "mysql://h/d"
    );
}

#[test]
fn own_variable_overrides_database_url() {
    let sqlite = |variables: &[(&str, &str)]| {
        check("[store]\nurl = \"sqlite:a.db\"", variables)
            .unwrap()
            .store
            .sqlite
    };
    assert_eq!(
        sqlite(&[("DATABASE_URL", "sqlite:b.db")]),
        Path::new("b.db")
    );
    let both = [
        ("DATABASE_URL", "sqlite:b.db"),
        ("RUNLOOM_STORE__URL", "sqlite:///c.db"),
    ];
    assert_eq!(sqlite(&both), Path::new("/c.db"));
}

#[test]
fn reads_secrets_from_variables_or_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    std::fs::write(&path, "the token of the file\n").unwrap();
    let path = path.to_str().unwrap();
    let token = |variables: &[(&str, &str)]| {
        let config = check("[server]\nadmin_token_env = \"T\"", variables)?;
        Ok::<_, Vec<String>>(
            config
                .server
                .admin_token
                .map(|secret| secret.expose().to_owned()),
        )
    };
    assert_eq!(token(&[]).unwrap(), None);
    let plain = "a plain long token";
    assert_eq!(token(&[("T", plain)]).unwrap().as_deref(), Some(plain));
    assert_eq!(
        token(&[("T_FILE", path)]).unwrap().as_deref(),
        Some("the token of the file")
    );
    let both = token(&[("T", plain), ("T_FILE", path)]).unwrap_err();
    assert_eq!(
        both,
        ["f.toml:2: server.admin_token_env: both T and T_FILE are set; set one of them"]
    );
    assert!(
        token(&[("T_FILE", "does/not/exist")]).unwrap_err()[0]
            .contains("cannot read does/not/exist")
    );
}

#[test]
fn refuses_short_master_keys() {
    let checked = check("", &[("RUNLOOM_MASTER_KEY", "fifteen letters")]).map(|_| ());
    let expected = "f.toml: server.master_key_env: the master key must have at least 16 characters; `openssl rand -hex 32` makes a good one";
    assert_eq!(checked.unwrap_err(), [expected]);
    assert!(check("", &[("RUNLOOM_MASTER_KEY", "sixteen letters.")]).is_ok());
    for (token, count) in [("fifteen letters", 1), ("sixteen letters.", 0)] {
        let warnings = check("", &[("RUNLOOM_ADMIN_TOKEN", token)])
            .unwrap()
            .warnings;
        let is_about_token = |one: &&Problem| one.path == "server.admin_token_env";
        assert_eq!(warnings.iter().filter(is_about_token).count(), count);
    }
}

#[test]
fn refuses_malformed_api_keys() {
    let text = "[[workspaces]]\nslug = \"a\"\n[[workspaces.api_keys]]\nkey_env = \"K\"\n";
    for bad in ["sk-123", "mantyx_at_123", "mantyx_a b"] {
        assert_eq!(
            check(text, &[("K", bad)]).map(|_| ()).unwrap_err().len(),
            1,
            "{bad}"
        );
    }
    assert_eq!(
        check(text, &[("K", "mantyx_short")])
            .unwrap()
            .warnings
            .len(),
        1
    );
}

#[test]
fn warns_about_a_missing_provider_key() {
    let text = "[[platform.providers]]\nid = \"oa\"\nkind = \"openai\"\napi_key_env = \"NOPE\"\n";
    let config = check(text, &[]).unwrap();
    assert!(
        config.warnings[0].message.contains("NOPE"),
        "{:?}",
        config.warnings
    );
    assert!(config.platform.providers[0].api_key.is_none());
}

#[test]
fn example_file_has_the_defaults() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../runloom.example.toml");
    let config = load(&Source::File(path), &Environment::default()).unwrap();
    let defaults = check("", &[]).unwrap();
    assert_eq!(format!("{:?}", config.runs), format!("{:?}", defaults.runs));
    assert_eq!(
        format!("{:?}", config.limits),
        format!("{:?}", defaults.limits)
    );
    assert_eq!(
        format!("{:?}", config.outbound),
        format!("{:?}", defaults.outbound)
    );
    assert_eq!(
        format!("{:?}", config.server),
        format!("{:?}", defaults.server)
    );
    assert_eq!(format!("{:?}", config.log), format!("{:?}", defaults.log));
}

#[test]
fn names_a_missing_file() {
    let error = load(
        &Source::File("no/such.toml".into()),
        &Environment::default(),
    )
    .unwrap_err();
    assert!(
        error.to_string().contains("no/such.toml: cannot be read"),
        "{error}"
    );
}

#[test]
fn shared_database_is_queue_and_bus() {
    let read = |text: &str| {
        parse(text, "f.toml", &Environment::default())
            .unwrap()
            .fabric
    };
    let postgres = "[store]\nurl = \"postgres://u:p@h/d\"\n";
    let alone = read(postgres);
    assert_eq!(
        (alone.queue, alone.bus),
        (QueueConfig::Store, BusConfig::Store)
    );
    let brokers = read(&format!(
        "{postgres}[fabric]\nqueue = \"amqp://q\"\nbus = \"redis://b\""
    ));
    assert_eq!(brokers.queue, QueueConfig::Amqp(Secret::new("amqp://q")));
    assert_eq!(brokers.bus, BusConfig::Redis(Secret::new("redis://b")));
    assert!(read("").is_embedded());
}
