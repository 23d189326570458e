//! Extraction from ordinary, broken and hostile pages.

use super::*;

fn page(html: &str) -> HtmlPage {
    read(html, &Url::parse("https://site.example/docs/page").unwrap())
}

#[test]
fn extracts_title_text_and_links() {
    let page = page(
        "<!doctype html><html><head><title> A &amp; B\n</title><meta name=description content='About  it'>
         <style>p { color: red }</style><script>document.write('<p>no</p>')</script></head>
         <body><nav><a href='/home'>Home</a></nav>
         <main><h1>Head</h1><p>One <b>bold</b>\n  word.</p><ul><li>first</li><li>second</li></ul>
         <pre>a\n  b</pre><p>See <a href='../x?a=1&amp;b=2'>the <i>rest</i></a> or <a href='javascript:alert(1)'>bad</a>.</p></main>
         <footer>imprint</footer></body></html>",
    );
    assert_eq!(page.title, "A & B");
    assert_eq!(page.description, "About it");
    assert_eq!(
        page.text,
        "# Head\n\nOne bold word.\n\n- first\n- second\n\na\n  b\n\nSee the rest or bad."
    );
    assert_eq!(
        page.links,
        [PageLink {
            text: "the rest".to_owned(),
            url: "https://site.example/x?a=1&b=2".to_owned()
        }]
    );
}

#[test]
fn omits_surrounding_elements_unless_there_is_nothing_else() {
    let page = page(
        "<header>Logo</header><nav>Menu</nav><p>The text.</p><aside>Ad</aside><footer>Imprint</footer>",
    );
    assert_eq!(page.text, "The text.");
    let only = super::read(
        "<nav>Only <b>this</b>",
        &Url::parse("https://a.example").unwrap(),
    );
    assert_eq!(only.text, "Only this");
}

#[test]
fn never_reads_scripts_and_styles() {
    for html in [
        "<p>ok</p><script>if (a < b) { x = '</p>'; } <!-- <script> --></script>",
        "<p>ok</p><style>a::before { content: '<p>no</p>' }</style>",
        "<p>ok</p><SCRIPT type='x'>no</ScRiPt >",
        "<p>ok</p><noscript>no</noscript><template><p>no</p></template>",
        "<p>ok</p><svg><text>no</text><svg>no</svg></svg>",
        "<p>ok</p><script>no",
        "<p>ok</p><!-- no --><![CDATA[",
    ] {
        let text = page(html).text;
        assert!(text.starts_with("ok"), "{html}: {text}");
        assert!(!text.contains("no"), "{html}: {text}");
    }
}

#[test]
fn limits_broken_and_hostile_pages() {
    let deep = format!(
        "{}deep{}",
        "<div><b><a href=/x>".repeat(100_000),
        "</div>".repeat(100_000)
    );
    assert!(page(&deep).text.contains("deep"));
    let ends = "</main></article></nav></pre></a></title></script>".repeat(10_000);
    assert_eq!(page(&format!("{ends}x")).text, "x");
    let huge = "<p>word</p>".repeat(500_000);
    assert!(page(&huge).text.len() < MAX_TEXT_BYTES + 100);
    let many: String = (0..10_000)
        .map(|n| format!("<a href=/{n}>link {n}</a> "))
        .collect();
    assert_eq!(page(&many).links.len(), MAX_LINKS);
    let attributes = format!("<p {}>x</p>", "a=b ".repeat(10_000));
    assert_eq!(page(&attributes).text, "x");
    let title = format!("<title>{}</title>x", "t".repeat(100_000));
    assert_eq!(page(&title).title.len(), MAX_TITLE);
    for odd in [
        "",
        "<",
        "<>",
        "</",
        "<!",
        "&#x110000;&#0;&nosuch;",
        "\u{0}\u{feff}",
        "<a href='ht!tp://['>x",
        "<base href='::'>x",
    ] {
        drop(page(odd));
    }
}

#[test]
fn a_small_main_element_does_not_hide_the_rest() {
    let rest = "<p>A long paragraph of the real text of the page.</p>".repeat(20);
    let page = page(&format!("<article>Teaser</article>{rest}"));
    assert!(page.text.contains("long paragraph"), "{}", page.text);
}
