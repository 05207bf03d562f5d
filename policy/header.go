package policy

import (
	"cmp"
	"errors"
	"fmt"
	"net/textproto"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"gopkg.in/yaml.v3"
)

// Header is a header of requests that a rule writes.
type Header struct {
	Name, Value string
	Set         bool // it takes the place of what the client sent; else it is for requests without it
}

// String describes the header.
func (h Header) String() string {
	if h.Set {
		return fmt.Sprintf("header %s: %s", h.Name, h.Value)
	}
	return fmt.Sprintf("header %s: %s, where the client sends none", h.Name, h.Value)
}

// forbiddenHeader returns why a rule or a pool may not write a header, "" if it may. Forbidden are
// headers about the transport of a message, which do not reach the site, and abide's own. Some
// servers take _ for -.
func forbiddenHeader(name string) string {
	plain := strings.ToLower(strings.ReplaceAll(name, "_", "-"))
	switch {
	case strings.HasPrefix(plain, "abide-"):
		return "but headers that begin with Abide- are between clients and abide, and no site gets them"
	case strings.HasPrefix(plain, "proxy-"):
		return "which is for proxies and does not reach the site; write Authorization"
	}
	switch plain {
	case "host", "connection", "keep-alive", "content-length", "transfer-encoding", "te", "trailer", "upgrade", "http2-settings", "expect", "via":
		return "which is not a header for credentials"
	}
	return ""
}

// credentialHeader matches headers that have a secret. The values of a rule's headers are shown.
var credentialHeader = regexp.MustCompile(`(?i)authorization|cookie|token|secret|password|api[-_]?key`)

// ruleHeader returns the header of a rule, or why a rule may not write it.
func ruleHeader(name, value string) (Header, error) {
	h := Header{Name: textproto.CanonicalMIMEHeaderKey(name), Value: strings.TrimSpace(value)}
	switch {
	case !isHeaderName(name):
		return h, errors.New("is not the name of a header")
	case credentialHeader.MatchString(name):
		return h, errors.New(`is a credential, which headers show; write a pool with put: "` + h.Name + `: {token}"`)
	case forbiddenHeader(name) != "":
		return h, errors.New("is not for a rule to write: the connection or abide decides it")
	case strings.EqualFold(name, "Accept-Encoding"):
		return h, errors.New("is not for a rule to write: the client knows which encodings it reads")
	case h.Value == "":
		return h, errors.New("is empty")
	case strings.ContainsFunc(h.Value, unicode.IsControl):
		return h, errors.New("has a control character")
	case len(h.Value) > mostHeader:
		return h, fmt.Errorf("is longer than %d bytes", mostHeader)
	}
	return h, nil
}

// mostHeader bounds the value of a rule's header, in bytes.
const mostHeader = 4096

// headersValue reads the headers that a rule sets, and those that it has by default.
func headersValue(d *Decoder, to *[]Header) Value {
	of := func(set bool) Value {
		return Value{func(n *yaml.Node, path string) {
			d.Each(n, path, false, func(key, value *yaml.Node, name, path string) {
				text, ok := d.Scalar(value, path, PlainText)
				if !ok {
					return
				}
				h, err := ruleHeader(name, text)
				h.Set = set
				switch {
				case err != nil:
					d.Fail(key, path, err)
				case slices.ContainsFunc(*to, func(other Header) bool { return other.Name == h.Name }):
					d.Failf(key, path, "is written twice")
				default:
					*to = append(*to, h)
				}
			})
			slices.SortFunc(*to, func(a, b Header) int { return cmp.Compare(a.Name, b.Name) })
		}, func() Node { return MapNode(headerPattern, FilledNode()) }}
	}
	fields := []Field{
		Optional("set", "Headers in place of those that the client sends.", of(true)),
		Optional("default", "Headers of requests that the client sends without them.", of(false)),
	}
	return Value{
		func(n *yaml.Node, path string) { d.Mapping(n, path, fields...) },
		func() Node { return ObjectNode(fields) },
	}
}

// headerPattern matches the names of headers.
const headerPattern = "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"

// isHeaderName tells whether s may be the name of a header.
var isHeaderName = regexp.MustCompile(headerPattern).MatchString
