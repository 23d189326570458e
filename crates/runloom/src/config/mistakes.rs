//! Configurations with one mistake each.

/// Texts, and the one problem of each.
pub(super) const MISTAKES: &[(&str, &str)] = &[
    (
        "[server]\nlisten = 1",
        "f.toml:2: server.listen: expected a string, got an integer",
    ),
    (
        "[server]\nlisten = \"8787\"",
        "f.toml:2: server.listen: `8787` is not HOST:PORT like 127.0.0.1:8787 or [::]:8787",
    ),
    (
        "[server]\nlistne = \"a:1\"",
        "f.toml:2: server.listne: unknown key; did you mean `listen`?",
    ),
    (
        "\n[sever]\n",
        "f.toml:2: sever: unknown key; did you mean `server`?",
    ),
    (
        "[server]\npublic_url = \"example.com\"",
        "f.toml:2: server.public_url: `example.com` must start with http:// or https://",
    ),
    (
        "[server]\ncors_origins = [\"https://app.example/\"]",
        "f.toml:2: server.cors_origins: `https://app.example/` must be an origin like https://app.example or http://localhost:3000 without a path, or \"*\"",
    ),
    (
        "store = 3",
        "f.toml:1: store: expected a table, got an integer",
    ),
    (
        "[dashboard]\nenabeld = false",
        "f.toml:2: dashboard.enabeld: unknown key; did you mean `enabled`?",
    ),
    (
        "[store]\nurl = \"mysql://u:p@h/d\"",
        "f.toml:2: store.url: must be sqlite:PATH, like sqlite:.runloom/runloom.db, or postgres://USER:PASSWORD@HOST/DATABASE",
    ),
    (
        "[store]\nurl = \"sqlite::memory:\"",
        "f.toml:2: store.url: must name a file: the log must outlive the process",
    ),
    (
        "[fabric]\nbus = \"redis://h\"",
        "f.toml:2: fabric.bus: needs a database that processes can share: set store.url to postgres://…, or use \"embedded\"",
    ),
    (
        "[fabric]\nqueue = \"nats\"",
        "f.toml:2: fabric.queue: must be \"embedded\", \"store\" or amqp://…",
    ),
    (
        "[runs]\nmax_tool_turns = 101",
        "f.toml:2: runs.max_tool_turns: expected an integer from 1 to 100, got 101",
    ),
    (
        "[runs]\npark_after_ms = -1",
        "f.toml:2: runs.park_after_ms: expected an integer from 1 to 86400000, got -1",
    ),
    (
        "[runs]\nprovider_timeout_ms = 5\nprovider_idle_ms = 6",
        "f.toml:3: runs.provider_idle_ms: must not be longer than provider_timeout_ms (5)",
    ),
    (
        "[limits]\nwrites_per_minute = 0",
        "f.toml:2: limits.writes_per_minute: expected an integer from 1 to 4294967295, got 0",
    ),
    (
        "[outbound]\nallow_private_networks = \"yes\"",
        "f.toml:2: outbound.allow_private_networks: expected true or false, got a string",
    ),
    (
        "[outbound]\nallow_hosts = [\n 1]",
        "f.toml:3: outbound.allow_hosts[0]: expected a string, got an integer",
    ),
    (
        "[outbound]\nallow_hosts = [\"http://x/\"]",
        "f.toml:2: outbound.allow_hosts: `http://x/` must be a host, host:port or *.domain",
    ),
    (
        "[outbound]\nallow_hosts = [\"a:99999\"]",
        "f.toml:2: outbound.allow_hosts: `a:99999` must be a host, host:port or *.domain",
    ),
    (
        "[store]\nurl = \"postgres://u:p@h:port/d\"",
        "f.toml:2: store.url: the store's URL is not right: invalid value for option `port`; write postgres://USER:PASSWORD@HOST:5432/DATABASE, with %40 for an @ in the user or password, %3A for a :, %2F for a / and so on",
    ),
    (
        "[store]\nurl = \"postgres://u:p@h/d\"\n[fabric]\nbus = \"redis://h:port\"",
        "f.toml:4: fabric.bus: not an address of Valkey or Redis: it cannot be parsed; it has the form redis://user:password@host:6379/0, or rediss://… with TLS",
    ),
    (
        "[log]\nformat = \"xml\"",
        "f.toml:2: log.format: expected `pretty` or `json`, got `xml`",
    ),
    (
        "[workspaces]\nslug = \"a\"",
        "f.toml:1: workspaces: expected an array of tables, got a table",
    ),
    (
        "[[workspaces]]\nname = \"A\"",
        "f.toml:1: workspaces[0].slug: is required",
    ),
    (
        "[[workspaces]]\nslug = \"A b\"",
        "f.toml:2: workspaces[0].slug: `A b` must be 1 to 63 of a-z, 0-9 and -, beginning with a letter or digit",
    ),
    (
        "[[workspaces]]\nslug = \"a\"\n[[workspaces]]\nslug = \"a\"",
        "f.toml:4: workspaces[1].slug: `a` is used twice",
    ),
    (
        "[[workspaces]]\nslug = \"a\"\n[[workspaces.api_keys]]\nkey_env = \"K\"",
        "f.toml:4: workspaces[0].api_keys[0].key_env: the environment variable K (or K_FILE) is not set",
    ),
    (
        "[[workspaces]]\nslug = \"a\"\nmonthly_budget_usd = -1",
        "f.toml:3: workspaces[0].monthly_budget_usd: expected a number of US dollars from 0 to 1,000,000,000, got -1",
    ),
    (
        "[[workspaces]]\nslug = \"a\"\nmonthly_budget_usd = 1e12",
        "f.toml:3: workspaces[0].monthly_budget_usd: expected a number of US dollars from 0 to 1,000,000,000, got 1000000000000.0",
    ),
    (
        "[[workspaces]]\nslug = \"a\"\ndefault_model = \"x/y\"",
        "f.toml:3: workspaces[0].default_model: unknown provider `x`; no providers are declared",
    ),
    (
        "[[workspaces]]\nslug = \"a\"\n[[workspaces.providers]]\nid = \"p\"\nkind = \"opnai\"",
        "f.toml:5: workspaces[0].providers[0].kind: expected `openai`, `azure-openai`, `anthropic`, `bedrock`, `google`, `xai`, `openai-compatible` or `demo`, got `opnai`",
    ),
    (
        "[[workspaces]]\nslug = \"a\"\n[[workspaces.providers]]\nid = \"p\"\nkind = \"openai\"\napi_kye_env = \"X\"",
        "f.toml:6: workspaces[0].providers[0].api_kye_env: unknown key; did you mean `api_key_env`?",
    ),
    (
        "[[platform.providers]]\nid = \"p\"\nkind = \"demo\"\nmodels = [{ id = \"m\", pricing = { input = 1 } }]",
        "f.toml:4: platform.providers[0].models[0].pricing.output: is required: a price needs `input` and `output`, in US dollars per million tokens",
    ),
    (
        "[log]\nlevel = \"inof\"",
        "f.toml:2: log.level: `inof` is not a level: use one of error, warn, info, debug, trace, off, or filters like info,runloom_engine=debug",
    ),
    (
        "[[workspaces]]\nslug = \"a\"\n[[workspaces.oauth_apps]]\nclient_id = \"x\"\nclient_secret_env = \"SECRET\"\nscopes = [\"runs:read\"]\nredirect_uris = [\"https://e.com/\"]",
        "f.toml:4: workspaces[0].oauth_apps[0].client_id: must start with mantyx_oa_",
    ),
    (
        "[[workspaces]]\nslug = \"a\"\n[[workspaces.oauth_apps]]\nclient_id = \"mantyx_oa_1\"\nclient_secret_env = \"NONE\"\nscopes = [\"runs:read\"]\nredirect_uris = [\"https://e.com/\"]",
        "f.toml:5: workspaces[0].oauth_apps[0].client_secret_env: the environment variable NONE (or NONE_FILE) is not set",
    ),
    (
        "[[workspaces]]\nslug = \"a\"\n[[workspaces.oauth_apps]]\nclient_id = \"mantyx_oa_1\"\nclient_secret_env = \"SECRET\"\nscopes = [\"runs:read\"]\nredirect_uris = [\"http://e.com/\"]",
        "f.toml:7: workspaces[0].oauth_apps[0].redirect_uris: `http://e.com/` must begin with https:// unless it is on this machine (127.0.0.1, [::1], localhost)",
    ),
    (
        "[[workspaces]]\nslug = \"a\"\n[[workspaces.oauth_apps]]\nclient_id = \"mantyx_oa_1\"\nclient_secret_env = \"SECRET\"\nscopes = [\"runs:read\"]\nvisibility = \"public\"\nallow_client_credentials = true",
        "f.toml:8: workspaces[0].oauth_apps[0].allow_client_credentials: only private apps may use the client credentials grant",
    ),
    (
        "[[workspaces]]\nslug = \"a\"\n[[workspaces.oauth_apps]]\nclient_id = \"mantyx_oa_1\"\nclient_secret_env = \"SECRET\"\nscopes = [\"runs:read\"]\n",
        "f.toml:3: workspaces[0].oauth_apps[0].redirect_uris: must name at least one URI, unless allow_client_credentials is true",
    ),
    (
        "[[workspaces]]\nslug = \"a\"\n[[workspaces.agents]]\nslug = \"x\"\nsystem_prompt = \"p\"\nreasoning_level = \"much\"",
        "f.toml:6: workspaces[0].agents[0].reasoning_level: expected `off`, `low`, `medium`, `high` or an integer from 0 to 100, got `much`",
    ),
    (
        "[[workspaces]]\nslug = \"a\"\n[[workspaces.secrets]]\nname = \"X\"\nvalue_env = \"NOT_SET\"",
        "f.toml:5: workspaces[0].secrets[0].value_env: the environment variable NOT_SET (or NOT_SET_FILE) is not set",
    ),
    (
        "[[workspaces]]\nslug = \"a\"\n[[workspaces.tools]]\nslug = \"t\"\ntype = \"soap\"",
        "f.toml:5: workspaces[0].tools[0].type: expected `http`, `code`, `mcp` or `plugin`, got `soap`",
    ),
    (
        "[[workspaces]]\nslug = \"a\"\n[[workspaces.tools]]\nslug = \"t\"\ntype = \"code\"\nsource = \"return 1\"\nparameters = { type = \"objekt\" }",
        "f.toml:7: workspaces[0].tools[0].parameters: must be the JSON Schema of an object",
    ),
    (
        "[[workspaces]]\nslug = \"a\"\n[[workspaces.tools]]\nslug = \"t\"\ntype = \"code\"\nsource = \"return 1\"\n[code]\nenabled = false",
        "f.toml:7: code: `enabled` is false, and `t` of workspace `a` has code tools",
    ),
    (
        "[[workspaces]]\nslug = \"a\"\n[[workspaces.providers]]\nid = \"p\"\nkind = \"openai\"\napi_key = \"sk-proj-123\"",
        "f.toml:6: workspaces[0].providers[0].api_key: keys are not written into this file: put the key into an environment variable and name it, like api_key_env = \"OPENAI_API_KEY\"",
    ),
    (
        "[[workspaces]]\nslug = \"a\"\n[[workspaces.providers]]\nid = \"p\"\nkind = \"openai\"\napi_key_env = \"sk-proj-123\"",
        "f.toml:6: workspaces[0].providers[0].api_key_env: must be the name of an environment variable, like OPENAI_API_KEY, and not the secret itself: put the secret into a variable and name it here",
    ),
    (
        "[[workspaces]]\nslug = \"a\"\n[[workspaces.api_keys]]\nkey_env = \"mantyx_0123456789abcdef0123\"",
        "f.toml:4: workspaces[0].api_keys[0].key_env: must be the name of an environment variable, like OPENAI_API_KEY, and not the secret itself: put the secret into a variable and name it here",
    ),
    (
        "[[workspaces]]\nslug = \"a\"\n[[workspaces.providers]]\nid = \"p\"\nkind = \"bedrock\"\nmodels = \"auto\"",
        "f.toml:6: workspaces[0].providers[0].models: providers of the kind `bedrock` do not list their models: name them, like [{ id = \"…\" }]",
    ),
    (
        "[[workspaces]]\nslug = \"a\"\n[[workspaces.providers]]\nid = \"p\"\nkind = \"openai\"\nmodels = \"gpt-5.5\"",
        "f.toml:6: workspaces[0].providers[0].models: must be \"auto\" (the provider's own list) or an array like [{ id = \"…\" }]",
    ),
];
