//! Extracts the readable part of an HTML page: title, main text, links. Works in one pass over the tags without
//! building a tree, so that deep nesting is cheap, and with a limit on every buffer.

use html5gum::{DefaultEmitter, Token, Tokenizer};
use reqwest::Url;

/// Maximum bytes of text.
const MAX_TEXT_BYTES: usize = 512 * 1024;

/// Maximum links, and characters of the text of one.
const MAX_LINKS: usize = 100;
const MAX_LINK_TEXT: usize = 120;

/// Maximum characters of a title or a description.
const MAX_TITLE: usize = 500;

/// Minimum text of a main element. Pages often mark something small, such as a teaser, as `article`.
const MIN_MAIN_BYTES: usize = 200;

/// Elements whose content is not shown as text.
const HIDDEN_ELEMENTS: [&str; 12] = [
    "script", "style", "template", "noscript", "svg", "math", "iframe", "object", "canvas",
    "select", "audio", "video",
];

/// Elements around the main content.
const SURROUNDING_ELEMENTS: [&str; 4] = ["nav", "footer", "aside", "menu"];

/// Elements with the main content.
const MAIN_ELEMENTS: [&str; 2] = ["main", "article"];

/// Elements that start a new line.
const BLOCK_ELEMENTS: [&str; 34] = [
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

/// The readable part of a page.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct HtmlPage {
    pub(super) title: String,
    pub(super) description: String,
    pub(super) text: String,
    /// The links of the text, in order, each URL once.
    pub(super) links: Vec<PageLink>,
}

/// A link of a page.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PageLink {
    pub(super) text: String,
    pub(super) url: String,
}

/// Reads a page from `base`.
pub(super) fn read(html: &str, base: &Url) -> HtmlPage {
    let mut emitter = DefaultEmitter::default();
    // Makes the tokenizer treat the content of scripts and styles as text.
    emitter.naively_switch_states(true);
    let mut reader = PageReader::new(base.clone());
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
                let form = match tag.self_closing {
                    true => TagForm::SelfClosing,
                    false => TagForm::Opening,
                };
                reader.start(&name, attribute, form);
            }
            Ok(Token::EndTag(tag)) => reader.end(&String::from_utf8_lossy(&tag.name)),
            Ok(Token::String(text)) => reader.text(&String::from_utf8_lossy(&text)),
            Ok(_) => {}
            Err(never) => match never {},
        }
    }
    reader.finish()
}

/// The form of a start tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TagForm {
    Opening,
    SelfClosing,
}

/// Collects text with folded white space and line breaks between blocks.
#[derive(Default)]
struct TextFlow {
    text: String,
    /// Line breaks before the next word.
    breaks: usize,
    space: bool,
}

impl TextFlow {
    fn break_lines(&mut self, lines: usize) {
        if !self.text.is_empty() {
            self.breaks = self.breaks.max(lines);
        }
        self.space = false;
    }

    /// Adds text as it is.
    fn push_verbatim(&mut self, text: &str) {
        if self.text.len() < MAX_TEXT_BYTES {
            self.write_separator();
            self.text.push_str(text);
        }
    }

    /// Adds text with folded white space.
    fn push_words(&mut self, text: &str) {
        if self.text.len() >= MAX_TEXT_BYTES {
            return;
        }
        for (index, word) in text.split(char::is_whitespace).enumerate() {
            self.space |= index > 0;
            if !word.is_empty() {
                self.write_separator();
                self.text.push_str(word);
            }
        }
    }

    fn write_separator(&mut self) {
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
    region: Region,
}

/// The smallest region of the page that contains a text. Each region includes the following ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Region {
    /// The whole page, navigation and footers included.
    Page,
    /// The page without surrounding elements.
    Body,
    /// The main elements.
    Main,
}

impl Region {
    const ALL: [Self; 3] = [Self::Page, Self::Body, Self::Main];
}

/// An element whose content is skipped, and its nesting depth.
struct HiddenElement {
    name: String,
    depth: usize,
}

struct FoundLink {
    link: PageLink,
    region: Region,
}

struct PageReader {
    base: Url,
    title: String,
    description: String,
    in_title: bool,
    hidden: Option<HiddenElement>,
    /// Depths of surrounding, main and preformatted elements.
    surrounding: usize,
    main: usize,
    preformatted: usize,
    /// The text of each region, in the order of [`Region::ALL`].
    flows: [TextFlow; 3],
    link: Option<OpenLink>,
    links: Vec<FoundLink>,
}

impl PageReader {
    fn new(base: Url) -> Self {
        Self {
            base,
            title: String::new(),
            description: String::new(),
            in_title: false,
            hidden: None,
            surrounding: 0,
            main: 0,
            preformatted: 0,
            flows: Default::default(),
            link: None,
            links: Vec::new(),
        }
    }

    /// The region of the current position.
    fn region(&self) -> Region {
        match (self.surrounding, self.main) {
            (1.., _) => Region::Page,
            (0, 0) => Region::Body,
            (0, 1..) => Region::Main,
        }
    }

    /// Changes the flows of all regions that contain the current position.
    fn each(&mut self, mut change: impl FnMut(&mut TextFlow)) {
        let current = self.region();
        for (flow, region) in self.flows.iter_mut().zip(Region::ALL) {
            if region <= current {
                change(flow);
            }
        }
    }

    fn start(&mut self, name: &str, attribute: impl Fn(&str) -> Option<String>, form: TagForm) {
        if let Some(hidden) = &mut self.hidden {
            hidden.depth += usize::from(hidden.name == name && form == TagForm::Opening);
            return;
        }
        match name {
            "title" => self.in_title = self.title.is_empty(),
            "base" => {
                let href = attribute("href").and_then(|href| self.base.join(&href).ok());
                self.base = href.unwrap_or_else(|| self.base.clone());
            }
            "meta" => self.meta(&attribute),
            "br" | "tr" => self.each(|flow| flow.break_lines(1)),
            "td" | "th" => self.each(|flow| flow.push_words(" ")),
            "a" => self.open_link(attribute("href")),
            "img" => {
                let alt = attribute("alt").unwrap_or_default();
                self.text(&alt);
            }
            _ => {}
        }
        if HIDDEN_ELEMENTS.contains(&name) && form == TagForm::Opening {
            self.hidden = Some(HiddenElement {
                name: name.to_owned(),
                depth: 1,
            });
            return;
        }
        self.surrounding += usize::from(self.is_surrounding(name));
        self.main += usize::from(MAIN_ELEMENTS.contains(&name));
        self.break_at_block(name);
        match name {
            "pre" => self.preformatted += 1,
            "li" => self.each(|flow| flow.push_verbatim("- ")),
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                let level = usize::from(name.as_bytes()[1] - b'0');
                let marks = format!("{} ", "#".repeat(level));
                self.each(|flow| flow.push_verbatim(&marks));
            }
            _ => {}
        }
    }

    /// The header of a page is a surrounding element; that of an article belongs to its content.
    fn is_surrounding(&self, name: &str) -> bool {
        SURROUNDING_ELEMENTS.contains(&name) || (name == "header" && self.main == 0)
    }

    fn break_at_block(&mut self, name: &str) {
        if BLOCK_ELEMENTS.contains(&name) {
            let lines = match name {
                "li" | "dt" | "dd" => 1,
                _ => 2,
            };
            self.each(|flow| flow.break_lines(lines));
        }
    }

    fn end(&mut self, name: &str) {
        if let Some(hidden) = &mut self.hidden {
            if hidden.name == name {
                hidden.depth -= 1;
            }
            if hidden.depth == 0 {
                self.hidden = None;
            }
            return;
        }
        match name {
            "title" => self.in_title = false,
            "a" => self.close_link(),
            "pre" => self.preformatted = self.preformatted.saturating_sub(1),
            _ => {}
        }
        self.break_at_block(name);
        let is_surrounding = usize::from(self.is_surrounding(name));
        self.surrounding = self.surrounding.saturating_sub(is_surrounding);
        let is_main = usize::from(MAIN_ELEMENTS.contains(&name));
        self.main = self.main.saturating_sub(is_main);
    }

    fn text(&mut self, text: &str) {
        if self.in_title {
            let room = MAX_TITLE.saturating_sub(self.title.chars().count());
            self.title.extend(text.chars().take(room));
            return;
        }
        if self.hidden.is_some() {
            return;
        }
        if let Some(link) = &mut self.link {
            let room = MAX_LINK_TEXT.saturating_sub(link.text.chars().count());
            link.text.extend(text.chars().take(room));
        }
        if self.preformatted > 0 {
            self.each(|flow| flow.push_verbatim(text));
        } else {
            self.each(|flow| flow.push_words(text));
        }
    }

    fn meta(&mut self, attribute: &impl Fn(&str) -> Option<String>) {
        let name = attribute("name").or_else(|| attribute("property"));
        let is_description = name.is_some_and(|name| {
            name.eq_ignore_ascii_case("description") || name.eq_ignore_ascii_case("og:description")
        });
        if is_description && self.description.is_empty() {
            let content = attribute("content").unwrap_or_default();
            self.description = fold_white_space(&content).chars().take(MAX_TITLE).collect();
        }
    }

    fn open_link(&mut self, href: Option<String>) {
        self.close_link();
        let url = href.and_then(|href| self.base.join(href.trim()).ok());
        let url = url.filter(|url| matches!(url.scheme(), "http" | "https"));
        self.link = Some(OpenLink {
            url: url.map(String::from),
            text: String::new(),
            region: self.region(),
        });
    }

    fn close_link(&mut self) {
        let Some(link) = self.link.take() else {
            return;
        };
        let Some(url) = link.url.filter(|_| self.links.len() < MAX_LINKS * 3) else {
            return;
        };
        self.links.push(FoundLink {
            link: PageLink {
                text: fold_white_space(&link.text),
                url,
            },
            region: link.region,
        });
    }

    fn finish(mut self) -> HtmlPage {
        self.close_link();
        let [page, body, main] = self.flows.map(|flow| flow.text);
        let has_main = main.len() >= MIN_MAIN_BYTES || main.len() * 2 >= body.len().max(1);
        let (region, text) = if has_main {
            (Region::Main, main)
        } else if body.is_empty() && !page.is_empty() {
            (Region::Page, page)
        } else {
            (Region::Body, body)
        };
        let mut links: Vec<PageLink> = Vec::new();
        for found in self.links {
            let link = found.link;
            let is_new = !links.iter().any(|known| known.url == link.url);
            let is_in_text = found.region >= region;
            if is_in_text && is_new && !link.text.is_empty() && links.len() < MAX_LINKS {
                links.push(link);
            }
        }
        HtmlPage {
            title: fold_white_space(&self.title),
            description: self.description,
            text: text.trim().to_owned(),
            links,
        }
    }
}

fn fold_white_space(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
#[path = "html_page_tests.rs"]
mod tests;
