use super::*;

const BASE: &str = "https://example.com/docs/page.html";

fn shown(html: &str) -> String {
    convert(html, BASE, PageForm::Markdown).text
}

#[test]
fn pages_become_markdown() {
    for (html, expected) in [
        (
            "<h1>A</h1><p>one <b>two</b> <i>three</i> <code>four</code></p>",
            "# A\n\none **two** *three* `four`",
        ),
        ("<ul><li>a<li>b<ol><li>c</ol></ul>", "- a\n- b\n    1. c"),
        (
            "<pre><code class='language-rust'>fn a() {\n    b\n}</code></pre>",
            "```rust\nfn a() {\n    b\n}\n```",
        ),
        ("<table><tr><th>a<th>b<tr><td>1<td>2</table>", "| a | b |\n| - | - |\n| 1 | 2 |"),
        ("<blockquote>said</blockquote>", "> said"),
        ("<a href='other.html#x'>o</a>", "[o](https://example.com/docs/other.html#x)"),
        ("<a href='//b.example/' title='more'>o</a>", "[o](https://b.example/)"),
        ("<a href='#x'>here</a> <a href='page.html#y'>and</a>", "here and"),
        ("<a href='page.html'>here</a>", "[here](https://example.com/docs/page.html)"),
        ("<h2>A<a href='#a' title='Permalink'>¶</a></h2>", "## A"),
        ("<a href='#a'><img src='i.png' alt=x></a>", "![x](https://example.com/docs/i.png)"),
        ("<base href='/up/'><a href='o'>o</a>", "[o](https://example.com/up/o)"),
        ("<img src='i.png' alt='seen'>", "![seen](https://example.com/docs/i.png)"),
        ("caf&eacute; &lt;b&gt; &#x41;", "café \\<b> A"),
        ("", ""),
        ("no html at all", "no html at all"),
    ] {
        assert_eq!(shown(html), expected, "{html}");
    }
}

#[test]
fn only_what_a_reader_sees_is_shown() {
    for hidden in [
        "<script>BAD</script>",
        "<style>BAD</style>",
        "<!-- BAD -->",
        "<noscript>BAD</noscript>",
        "<template>BAD</template>",
        "<p hidden>BAD</p>",
        "<p aria-hidden=true>BAD</p>",
        "<p style='display: none'>BAD</p>",
        "<p style='color:red; DISPLAY : NONE !important'>BAD</p>",
        "<p style='visibility:hidden'>BAD</p>",
        "<p style='opacity:0'>BAD</p>",
        "<p style='opacity: 0.0'>BAD</p>",
        "<p style='font-size:0px'>BAD</p>",
        "<div style='display:none'><div><p>BAD</div></div>",
        "<input value=BAD><input type=hidden value=BAD>",
        "<textarea>BAD</textarea><select><option>BAD</select>",
        "<iframe srcdoc=BAD>BAD</iframe>",
        "<object>BAD</object><canvas>BAD</canvas><svg><text>BAD</text></svg>",
        "<meta name=description content=BAD>",
        "<a href='javascript:BAD()'>x</a>",
        "<a href='data:text/html,BAD'>x</a>",
        "<a href=' java\nscript:BAD'>x</a>",
        "<img src='data:image/png;base64,BAD' alt=x>",
        "<dialog>BAD</dialog>",
    ] {
        for form in PageForm::ALL {
            let page =
                convert(&format!("<title>t</title><p>before</p>{hidden}<p>after</p>"), BASE, form);
            assert!(!page.text.contains("BAD"), "{form} {hidden}: {}", page.text);
            assert!(
                page.text.contains("before") && page.text.contains("after"),
                "{form} {hidden}: {}",
                page.text
            );
        }
    }
    for seen in [
        "<p style='opacity:0.5'>SEEN</p>",
        "<p style='font-size:0.9em'>SEEN</p>",
        "<details>SEEN</details>",
    ] {
        assert!(shown(seen).contains("SEEN"), "{seen}");
    }
}

#[test]
fn invisible_characters_are_left_out() {
    assert_eq!(shown("<p>a\u{200b}b&#x202e;c&zwnj;d"), "abcd");
    assert_eq!(plain("<p>a\u{200b}b&#x202e;c&zwnj;d").text, "abcd");
}

#[test]
fn an_article_has_no_menus() {
    let paragraph =
        "<p>The main text of this page goes on for a while, with commas, clauses, and sentences. "
            .repeat(8);
    let html = format!(
        "<html><head><title>The title</title></head><body><nav><ul><li><a href=/>Home</a><li><a href=/about>About</a></ul></nav>\
         <article><h1>The title</h1>{paragraph}</article><footer>Imprint</footer></body></html>"
    );
    let page = convert(&html, BASE, PageForm::Article);
    assert_eq!(page.title, "The title");
    assert!(page.text.contains("The main text"), "{}", page.text);
    assert!(!page.text.contains("Imprint") && !page.text.contains("About"), "{}", page.text);
    let whole = convert(&html, BASE, PageForm::Markdown).text;
    assert!(whole.contains("Imprint") && whole.contains("About"), "{whole}");
}

#[test]
fn any_page_is_plain_text_in_one_pass() {
    for (html, title, text) in [
        (
            "<title>A  b</title><p>one <b>two</b></p><script>no</script><p>three",
            "A b",
            "one two\nthree",
        ),
        ("<p>a<style>no</style>b<!-- no -->c", "", "abc"),
        ("<ul><li>a<li>b</ul>", "", "a\nb"),
        (
            "<div hidden>no<div>no</div>no</div><p style='display:none'>no</p><b aria-hidden=true>no</b>a",
            "",
            "a",
        ),
        ("<svg><text>no</text></svg><dialog>no</dialog><img hidden>a", "", "a"),
        ("&lt;p&gt; &amp; caf&eacute;", "", "<p> & café"),
        ("<p>unclosed <b", "", "unclosed"),
    ] {
        let page = plain(html);
        assert_eq!((page.title.as_str(), page.text.as_str()), (title, text), "{html}");
    }
    let deep = format!("{}x{}", "<div>".repeat(100_000), "</div>".repeat(100_000));
    assert_eq!(plain(&deep).text, "x");
}

#[test]
fn few_attributes_are_kept() {
    for (html, expected) in [
        ("<p a b=1 c='>' d=\">\" e = x/>t", None),
        ("<p/a/b>t<!-- <p", None),
        ("a < b <", None),
        ("<p N x=1>t<b>u", Some("<p N>t<b>u")),
        ("<p N x='>' y>t<p N z>u", Some("<p N>t<p N>u")),
        ("<p N é='>", Some("<p N")),
        ("é<p N x", Some("é<p N")),
    ] {
        let many = (0..MAX_ATTRIBUTES).map(|n| format!("a{n}")).collect::<Vec<_>>().join(" ");
        let written = html.replace('N', &many);
        let kept = with_few_attributes(&written);
        let expected = expected.map_or(written.clone(), |expected| expected.replace('N', &many));
        assert!(kept.replace(' ', "") == expected.replace(' ', ""), "{html}");
    }
    let hostile = format!("<p>top<p {}>bottom", "a=1 ".repeat(1_000_000));
    let begun = std::time::Instant::now();
    assert!(shown(&hostile).contains("bottom"));
    assert!(plain(&hostile).text.contains("bottom"));
    assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
}
