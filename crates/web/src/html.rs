//! HTML as Markdown or text, for a model: what a reader of the page does not see is left out.
//!
//! [`convert`] may be slow, take much memory or overflow its stack on hostile pages, so it runs in a process of its own
//! ([`worker`](crate::worker)). [`plain`] reads any page in one pass, in time and memory of its size.

use std::borrow::Cow;
use std::cell::RefCell;

use dom_query::{Document, NodeRef, Selection};
use dom_smoothie::{Config, Readability, TextMode};
use html5ever::tokenizer::{
    BufferQueue, EndTag, StartTag, Tag, TagToken, Token, TokenSink, TokenSinkResult, Tokenizer,
    TokenizerOpts,
};
use serde::{Deserialize, Serialize};
use sinew_tool::{PageForm, visible_only};
use url::Url;

/// A page as it is shown.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownPage {
    /// Its title; may be empty.
    pub title: String,
    /// Its text in the form that was asked for.
    pub text: String,
}

/// The most attributes of an element.
const MAX_ATTRIBUTES: usize = 200;
/// The texts of links that lead to the place where they are.
const SIGNS: [&str; 6] = ["", "¶", "§", "#", "🔗", "⚓"];
/// What no reader sees, or what a text cannot show.
const UNSEEN: &str = "script, style, noscript, template, iframe, object, embed, canvas, svg, head > link, meta, \
                      [hidden], [aria-hidden='true'], input, select, textarea, dialog:not([open])";
/// Declarations that hide an element, without whitespace.
const HIDING: [&str; 5] =
    ["display:none", "visibility:hidden", "visibility:collapse", "opacity:0", "font-size:0"];

/// Converts a page. `base` is where it was, and relative links lead from.
pub fn convert(html: &str, base: &str, form: PageForm) -> ShownPage {
    let document = Document::from(&*with_few_attributes(html));
    let page = Url::parse(base).ok();
    let base = page.clone();
    let stated = document.select_single("base[href]").attr("href");
    let base = match (base, stated) {
        (Some(base), Some(stated)) => base.join(&stated).ok().or(Some(base)),
        (base, _) => base,
    };
    clean(&document, base.as_ref(), page.as_ref());
    let title = one_line(&document.select_single("title").text());
    let text = match form {
        PageForm::Markdown => markdown(&document),
        PageForm::Article => article(&document).unwrap_or_else(|| markdown(&document)),
        PageForm::Text => match document.body() {
            Some(body) => body.formatted_text().to_string(),
            None => document.formatted_text().to_string(),
        },
    };
    ShownPage { title: visible_only(&title), text: visible_only(text.trim()) }
}

fn markdown(document: &Document) -> String {
    match document.body() {
        Some(body) => body.md(None).to_string(),
        None => document.md(None).to_string(),
    }
}

/// Returns the main text of a page that has one.
fn article(document: &Document) -> Option<String> {
    let config = Config { text_mode: TextMode::Markdown, ..Config::default() };
    let html = document.html();
    let mut reader = Readability::new(html, None, Some(config)).ok()?;
    let article = reader.parse().ok()?;
    Some(article.text_content.to_string()).filter(|text| !text.trim().is_empty())
}

/// Takes away what no reader sees, and makes links absolute. Links that would execute, and those within the page, are
/// text.
fn clean(document: &Document, base: Option<&Url>, page: Option<&Url>) {
    document.select(UNSEEN).remove();
    let hidden: Vec<NodeRef<'_>> = document
        .select("[style]")
        .nodes()
        .iter()
        .filter(|node| node.attr("style").is_some_and(|style| hides(&style)))
        .cloned()
        .collect();
    hidden.iter().for_each(NodeRef::remove_from_parent);
    for comment in document.root().descendants().into_iter().filter(|node| node.is_comment()) {
        comment.remove_from_parent();
    }
    lead(&document.select("a[href], area[href]"), "href", base);
    lead(&document.select("img[src]"), "src", base);
    let here = page.map(|page| without_fragment(page.clone()));
    for link in document.select("a").nodes() {
        link.remove_attr("title");
        let target = link.attr("href").and_then(|href| Url::parse(&href).ok());
        let stays = target.is_none_or(|url| {
            url.fragment().is_some() && here.as_ref() == Some(&without_fragment(url))
        });
        // Beside many headings a sign leads to them.
        if stays
            && SIGNS.contains(&link.text().trim())
            && !link.descendants().iter().any(|one| one.has_name("img"))
        {
            link.remove_from_parent();
        } else if stays {
            link.rename("span");
        }
    }
}

fn without_fragment(mut url: Url) -> Url {
    url.set_fragment(None);
    url
}

/// Leaves out what elements have beyond so many attributes: a parser compares each with those before it.
fn with_few_attributes(html: &str) -> Cow<'_, str> {
    let mut kept = String::new();
    let mut copied = 0;
    let mut at = 0;
    let bytes = html.as_bytes();
    while let Some(begin) = bytes.get(at..).and_then(|rest| rest.iter().position(|c| *c == b'<')) {
        at += begin + 1;
        if !bytes.get(at).is_some_and(u8::is_ascii_alphabetic) {
            continue;
        }
        let (end, too_many) = tag_end(bytes, at);
        at = end;
        // Both are beside characters of ASCII.
        if let Some(from) = too_many {
            kept.push_str(html.get(copied..from).unwrap_or_default());
            copied = end;
        }
    }
    match copied {
        0 => Cow::Borrowed(html),
        _ => Cow::Owned(kept + html.get(copied..).unwrap_or_default()),
    }
}

/// Returns where a tag ends whose name begins at `at`, and where its attributes become too many, if they do.
fn tag_end(bytes: &[u8], at: usize) -> (usize, Option<usize>) {
    #[derive(Clone, Copy, PartialEq)]
    enum In {
        Name,
        Space,
        Attribute,
        Equals,
        Unquoted,
        Quoted(u8),
    }
    let (mut within, mut n, mut too_many) = (In::Name, 0, None);
    for (offset, c) in bytes.get(at..).unwrap_or_default().iter().enumerate() {
        let is_space = c.is_ascii_whitespace();
        within = match (within, c) {
            (In::Quoted(quote), c) if *c == quote => In::Space,
            (In::Quoted(quote), _) => In::Quoted(quote),
            (_, b'>') => return (at + offset, too_many),
            (In::Equals, b'"' | b'\'') => In::Quoted(*c),
            (In::Equals, _) if is_space => In::Equals,
            (In::Equals, _) => In::Unquoted,
            (In::Attribute, b'=') => In::Equals,
            (_, _) if is_space => In::Space,
            (In::Name | In::Attribute | In::Space, b'/') => In::Space,
            (In::Space, _) => {
                n += 1;
                if n == MAX_ATTRIBUTES + 1 {
                    too_many = Some(at + offset);
                }
                In::Attribute
            }
            (within, _) => within,
        };
    }
    (bytes.len(), too_many)
}

fn lead(elements: &Selection<'_>, attribute: &str, base: Option<&Url>) {
    for node in elements.nodes() {
        let Some(written) = node.attr(attribute) else { continue };
        let written = written.trim();
        let target = match base {
            Some(base) => base.join(written).ok(),
            None => Url::parse(written).ok(),
        };
        let shown = target.filter(|url| matches!(url.scheme(), "http" | "https" | "mailto"));
        match shown {
            Some(url) => node.set_attr(attribute, url.as_str()),
            None => node.remove_attr(attribute),
        }
    }
}

fn hides(style: &str) -> bool {
    let style: String = style.chars().filter(|c| !c.is_whitespace()).collect();
    let style = style.to_ascii_lowercase();
    style.split(';').any(|declaration| {
        let declaration = declaration.trim_end_matches("!important");
        HIDING.iter().any(|hiding| match declaration.strip_prefix(hiding) {
            // `opacity:0.5` and `font-size:0.9em` are seen.
            Some(rest) => {
                rest.chars().all(|c| matches!(c, '0' | '.' | 'p' | 'x' | 'e' | 'm' | '%'))
            }
            None => false,
        })
    })
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// How much of a page is read at once, in bytes.
const PIECE: usize = 16 << 10;
/// Elements whose text is not shown.
const SILENT: [&str; 12] = [
    "script", "style", "noscript", "template", "iframe", "textarea", "select", "title", "svg",
    "object", "canvas", "dialog",
];
/// Elements without an end.
const VOID: [&str; 13] = [
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track",
    "wbr",
];
/// Elements that do not begin a line.
const INLINE: [&str; 24] = [
    "a", "abbr", "b", "bdi", "bdo", "cite", "code", "data", "del", "dfn", "em", "font", "i", "img",
    "ins", "kbd", "mark", "q", "s", "small", "span", "strong", "sub", "u",
];

/// Returns the text of a page in one pass, whichever elements it has.
pub fn plain(html: &str) -> ShownPage {
    let html = &*with_few_attributes(html);
    let sink = PlainSink::default();
    let tokenizer = Tokenizer::new(sink, TokenizerOpts::default());
    let input = BufferQueue::default();
    let mut rest = html;
    while !rest.is_empty() {
        // Of a large buffer each token would be a copy of the rest.
        let (piece, after) = rest.split_at(rest.floor_char_boundary(PIECE));
        rest = after;
        input.push_back(piece.into());
        while !matches!(tokenizer.feed(&input), html5ever::TokenizerResult::Done) {}
    }
    tokenizer.end();
    let PlainSink { text, title, .. } = tokenizer.sink;
    let lines: Vec<String> = visible_only(&text.into_inner()).lines().map(one_line).collect();
    let text = lines.iter().filter(|line| !line.is_empty()).cloned().collect::<Vec<_>>().join("\n");
    ShownPage { title: visible_only(&one_line(&title.into_inner())), text }
}

#[derive(Default)]
struct PlainSink {
    text: RefCell<String>,
    title: RefCell<String>,
    /// The element whose text is not shown, and how many of its name are open in it.
    within: RefCell<Option<(String, usize)>>,
}

impl PlainSink {
    /// Notes that an element begins or ends, and returns whether its text is shown.
    fn passes(&self, tag: &Tag) -> bool {
        let mut within = self.within.borrow_mut();
        match (within.as_mut(), tag.kind) {
            (None, StartTag)
                if (SILENT.contains(&&*tag.name) || is_hidden(tag))
                    && !VOID.contains(&&*tag.name) =>
            {
                *within = Some((tag.name.to_string(), 1));
            }
            (Some((name, depth)), kind) if **name == *tag.name => match kind {
                StartTag => *depth += 1,
                EndTag => *depth -= 1,
            },
            _ => {}
        }
        within.take_if(|(_, depth)| *depth == 0);
        within.is_none()
    }
}

/// Returns whether an element says that it is not seen.
fn is_hidden(tag: &Tag) -> bool {
    tag.attrs.iter().any(|attribute| match &*attribute.name.local {
        "hidden" => true,
        "aria-hidden" => &*attribute.value == "true",
        "style" => hides(&attribute.value),
        _ => false,
    })
}

impl TokenSink for PlainSink {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        match token {
            TagToken(tag) => {
                let is_seen = self.passes(&tag);
                let is_block = !INLINE.contains(&&*tag.name) && !SILENT.contains(&&*tag.name);
                self.text.borrow_mut().push_str(if is_seen && is_block { "\n" } else { "" });
            }
            Token::CharacterTokens(text) => match &*self.within.borrow() {
                None => self.text.borrow_mut().push_str(&text),
                Some((name, _)) if name == "title" => self.title.borrow_mut().push_str(&text),
                Some(_) => {}
            },
            _ => {}
        }
        TokenSinkResult::Continue
    }
}

#[cfg(test)]
mod tests;
