package page

import (
	"net/url"
	"strconv"
	"strings"
)

// markup is HTML that is written as it is: a constant of this package, or what is escaped already. A string does not become
// markup by itself, so that no text of others does.
type markup string

// query is a text that is written as a value in the query of a URL.
type query string

// dotted is a text, such as the name of a site, of which a line may end after each dot.
type dotted string

// part is markup with its values.
type part struct {
	form   markup
	values []any
}

func html(form markup, values ...any) part { return part{form, values} }

// some is a part where ok, else nothing.
func some(ok bool, form markup, values ...any) part { return pick(ok, part{form, values}, part{}) }

// builder makes HTML.
type builder struct{ text []byte }

// put appends markup, in which each {} stands for the next of the values. A text is escaped, for an element and for an
// attribute in quotes; a function writes by itself.
func (b *builder) put(form markup, values ...any) {
	for _, value := range values {
		before, after, _ := strings.Cut(string(form), "{}")
		b.text, form = append(b.text, before...), markup(after)
		switch v := value.(type) {
		case string:
			b.text = escape(b.text, v, "")
		case dotted:
			b.text = escape(b.text, string(v), "<wbr>")
		case query:
			b.text = escape(b.text, url.QueryEscape(string(v)), "")
		case int:
			b.text = strconv.AppendInt(b.text, int64(v), 10)
		case markup:
			b.text = append(b.text, v...)
		case part:
			b.put(v.form, v.values...)
		case []part:
			for _, one := range v {
				b.put(one.form, one.values...)
			}
		case func():
			v()
		default:
			panic("page: a value of a type that put does not know")
		}
	}
	b.text = append(b.text, form...)
}

// entities are the characters that HTML would read as something else.
var entities = [256]string{'"': "&#34;", '&': "&amp;", '\'': "&#39;", '<': "&lt;", '>': "&gt;", 0: "\uFFFD"}

// escape appends a text in which nothing is HTML, with more after each dot.
func escape(to []byte, text, afterDot string) []byte {
	for i := range len(text) {
		if entity := entities[text[i]]; entity != "" {
			to = append(to, entity...)
		} else if to = append(to, text[i]); text[i] == '.' {
			to = append(to, afterDot...)
		}
	}
	return to
}

// pick is one of two values.
func pick[T any](ok bool, then, otherwise T) T {
	if ok {
		return then
	}
	return otherwise
}
