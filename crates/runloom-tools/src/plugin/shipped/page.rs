//! What a person would read of an HTML page: title, main text, links. Pure, and in one pass over a stream of tags: there is no tree,
//! so that no depth of nesting costs anything, and every buffer has a limit.

use html5gum::{DefaultEmitter, Token, Tokenizer};
use reqwest::Url;

/// The most bytes of text that are kept of a page.
const MAX_TEXT_BYTES: usize = 512 * 1024;

/// Links of a page, and characters of the text of one.
const MAX_LINKS: usize = 100;
const MAX_LINK_TEXT: usize = 120;

/// Characters of a title or a description.
const MAX_TITLE: usize = 500;

/// The main part of a page is believed when it has at least this much text; marks are often put around something small.
const MIN_MAIN_BYTES: usize = 200;

/// Elements whose content is not for reading.
const SILENT: [&str; 12] = [
    "script", "style", "template", "noscript", "svg", "math", "iframe", "object", "canvas",
    "select", "audio", "video",
];

/// Elements that surround what somebody came for.
const AROUND: [&str; 4] = ["nav", "footer", "aside", "menu"];

/// Elements that hold what somebody came for.
const MAIN: [&str; 2] = ["main", "article"];

/// Elements that stand on lines of their own.
const BLOCKS: [&str; 34] = [
    "address",
    "article",
    "aside",
    "blockquote",
    "body",
    "center",
    "dd",
    "details",
    "div",
    "dl",
    "dt",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "form",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "hr",
    "li",
    "main",
    "nav",
    "ol",
    "p",
    "pre",
    "section",
    "summary",
    "table",
    "ul",
];

/// A page as it is read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) title: String,
    pub(super) description: String,
    pub(super) text: String,
    /// Text and address of each link of what is read, in order, none twice.
    pub(super) links: Vec<(String, String)>,
}

/// Reads a page. `base` is where it came from.
pub(super) fn read(html: &str, base: &Url) -> Page {
    let mut emitter = DefaultEmitter::default();
    // Scripts and styles end where they end, whatever they contain.
    emitter.naively_switch_states(true);
    let mut reader = Reader::new(base.clone());
    for token in Tokenizer::new_with_emitter(html, emitter) {
        match token {
            Ok(Token::StartTag(tag)) => {
                let name = String::from_utf8_lossy(&tag.name).into_owned();
                let attribute = |wanted: &str| {
                    let found = tag
                        .attributes
                        .iter()
                        .find(|(name, _)| name.as_slice() == wanted.as_bytes());
                    found.map(|(_, value)| String::from_utf8_lossy(value).into_owned())
                };
                reader.start(&name, attribute, tag.self_closing);
            }
            Ok(Token::EndTag(tag)) => reader.end(&String::from_utf8_lossy(&tag.name)),
            Ok(Token::String(text)) => reader.text(&String::from_utf8_lossy(&text)),
            Ok(_) => {}
            Err(never) => match never {},
        }
    }
    reader.finish()
}

/// Text that grows: white space folded, blocks apart.
#[derive(Default)]
struct Flow {
    text: String,
    /// Lines to end before the next word.
    breaks: usize,
    space: bool,
}

impl Flow {
    fn block(&mut self, lines: usize) {
        if !self.text.is_empty() {
            self.breaks = self.breaks.max(lines);
        }
        self.space = false;
    }

    fn push(&mut self, text: &str, is_verbatim: bool) {
        if self.text.len() >= MAX_TEXT_BYTES {
            return;
        }
        if is_verbatim {
            self.settle();
            self.text.push_str(text);
            return;
        }
        for (index, word) in text.split(char::is_whitespace).enumerate() {
            self.space |= index > 0;
            if !word.is_empty() {
                self.settle();
                self.text.push_str(word);
            }
        }
    }

    fn settle(&mut self) {
        if self.breaks > 0 {
            self.text.extend(std::iter::repeat_n('\n', self.breaks));
        } else if self.space && !self.text.is_empty() && !self.text.ends_with(['\n', ' ']) {
            self.text.push(' ');
        }
        (self.breaks, self.space) = (0, false);
    }
}

/// A link whose text is being read.
struct OpenLink {
    url: Option<String>,
    text: String,
    is_main: bool,
    is_around: bool,
}

struct Reader {
    base: Url,
    title: String,
    description: String,
    in_title: bool,
    /// Inside an element that is not for reading: which, and how often it was opened.
    silent: Option<(String, usize)>,
    around: usize,
    main: usize,
    verbatim: usize,
    /// Everything, everything but what is around, and the main part.
    flows: [Flow; 3],
    link: Option<OpenLink>,
    links: Vec<(String, String, [bool; 3])>,
}

impl Reader {
    fn new(base: Url) -> Self {
        Self {
            base,
            title: String::new(),
            description: String::new(),
            in_title: false,
            silent: None,
            around: 0,
            main: 0,
            verbatim: 0,
            flows: Default::default(),
            link: None,
            links: Vec::new(),
        }
    }

    /// Which flows take what comes now.
    fn open(&self) -> [bool; 3] {
        let near = self.around == 0;
        [true, near, near && self.main > 0]
    }

    fn each(&mut self, mut change: impl FnMut(&mut Flow)) {
        let open = self.open();
        for (flow, _) in self.flows.iter_mut().zip(open).filter(|(_, open)| *open) {
            change(flow);
        }
    }

    fn start(
        &mut self,
        name: &str,
        attribute: impl Fn(&str) -> Option<String>,
        self_closing: bool,
    ) {
        if let Some((silent, depth)) = &mut self.silent {
            *depth += usize::from(silent == name && !self_closing);
            return;
        }
        match name {
            "title" => self.in_title = self.title.is_empty(),
            "base" => {
                let href = attribute("href").and_then(|href| self.base.join(&href).ok());
                self.base = href.unwrap_or_else(|| self.base.clone());
            }
            "meta" => self.meta(&attribute),
            "br" => self.each(|flow| flow.block(1)),
            "td" | "th" => self.each(|flow| flow.push(" ", false)),
            "tr" => self.each(|flow| flow.block(1)),
            "a" => self.open_link(attribute("href")),
            "img" => {
                let alt = attribute("alt").unwrap_or_default();
                self.text(&alt);
            }
            _ => {}
        }
        if SILENT.contains(&name) && !self_closing {
            self.silent = Some((name.to_owned(), 1));
            return;
        }
        // A page's header is around it; that of an article is part of it.
        let is_around = AROUND.contains(&name) || (name == "header" && self.main == 0);
        self.around += usize::from(is_around);
        self.main += usize::from(MAIN.contains(&name));
        if BLOCKS.contains(&name) {
            let lines = if matches!(name, "li" | "dt" | "dd") {
                1
            } else {
                2
            };
            self.each(|flow| flow.block(lines));
        }
        match name {
            "pre" => self.verbatim += 1,
            "li" => self.each(|flow| flow.push("- ", true)),
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                let level = usize::from(name.as_bytes()[1] - b'0');
                let marks = format!("{} ", "#".repeat(level));
                self.each(|flow| flow.push(&marks, true));
            }
            _ => {}
        }
    }

    fn end(&mut self, name: &str) {
        if let Some((silent, depth)) = &mut self.silent {
            if silent == name {
                *depth -= 1;
            }
            if *depth == 0 {
                self.silent = None;
            }
            return;
        }
        match name {
            "title" => self.in_title = false,
            "a" => self.close_link(),
            "pre" => self.verbatim = self.verbatim.saturating_sub(1),
            _ => {}
        }
        if BLOCKS.contains(&name) {
            let lines = if matches!(name, "li" | "dt" | "dd") {
                1
            } else {
                2
            };
            self.each(|flow| flow.block(lines));
        }
        let is_around = AROUND.contains(&name) || (name == "header" && self.main == 0);
        self.around = self.around.saturating_sub(usize::from(is_around));
        self.main = self.main.saturating_sub(usize::from(MAIN.contains(&name)));
    }

    fn text(&mut self, text: &str) {
        if self.in_title {
            let room = MAX_TITLE.saturating_sub(self.title.chars().count());
            self.title.extend(text.chars().take(room));
            return;
        }
        if self.silent.is_some() {
            return;
        }
        if let Some(link) = &mut self.link {
            let room = MAX_LINK_TEXT.saturating_sub(link.text.chars().count());
            link.text.extend(text.chars().take(room));
        }
        let is_verbatim = self.verbatim > 0;
        self.each(|flow| flow.push(text, is_verbatim));
    }

    fn meta(&mut self, attribute: &impl Fn(&str) -> Option<String>) {
        let name = attribute("name").or_else(|| attribute("property"));
        let says = name.is_some_and(|name| {
            name.eq_ignore_ascii_case("description") || name.eq_ignore_ascii_case("og:description")
        });
        if says && self.description.is_empty() {
            let content = attribute("content").unwrap_or_default();
            self.description = folded(&content).chars().take(MAX_TITLE).collect();
        }
    }

    fn open_link(&mut self, href: Option<String>) {
        self.close_link();
        let url = href.and_then(|href| self.base.join(href.trim()).ok());
        let url = url.filter(|url| matches!(url.scheme(), "http" | "https"));
        let [_, near, main] = self.open();
        self.link = Some(OpenLink {
            url: url.map(String::from),
            text: String::new(),
            is_main: main,
            is_around: !near,
        });
    }

    fn close_link(&mut self) {
        let Some(link) = self.link.take() else {
            return;
        };
        let Some(url) = link.url.filter(|_| self.links.len() < MAX_LINKS * 3) else {
            return;
        };
        let open = [true, !link.is_around, link.is_main];
        self.links.push((folded(&link.text), url, open));
    }

    fn finish(mut self) -> Page {
        self.close_link();
        let [everything, near, main] = &self.flows;
        let chosen =
            if main.text.len() >= MIN_MAIN_BYTES || main.text.len() * 2 >= near.text.len().max(1) {
                2
            } else if near.text.is_empty() && !everything.text.is_empty() {
                0
            } else {
                1
            };
        let mut links: Vec<(String, String)> = Vec::new();
        for (text, url, open) in self.links {
            let is_new = !links.iter().any(|(_, known)| *known == url);
            if open[chosen] && is_new && !text.is_empty() && links.len() < MAX_LINKS {
                links.push((text, url));
            }
        }
        let [everything, near, main] = self.flows;
        let text = [everything, near, main]
            .into_iter()
            .nth(chosen)
            .unwrap_or_default()
            .text;
        Page {
            title: folded(&self.title),
            description: self.description,
            text: text.trim().to_owned(),
            links,
        }
    }
}

fn folded(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(html: &str) -> Page {
        read(html, &Url::parse("https://site.example/docs/page").unwrap())
    }

    #[test]
    fn a_page_becomes_title_text_and_links() {
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
            [(
                "the rest".to_owned(),
                "https://site.example/x?a=1&b=2".to_owned()
            )]
        );
    }

    #[test]
    fn without_a_main_part_what_is_around_is_left_out() {
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
    fn scripts_and_styles_are_never_read_however_they_are_written() {
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
    fn broken_and_hostile_pages_end_with_bounded_text() {
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
    fn a_small_marked_part_does_not_hide_the_rest() {
        let rest = "<p>A long paragraph of the real text of the page.</p>".repeat(20);
        let page = page(&format!("<article>Teaser</article>{rest}"));
        assert!(page.text.contains("long paragraph"), "{}", page.text);
    }
}
