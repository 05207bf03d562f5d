package policy

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Access is the addresses and the clients that may use the proxy. If any client is
// listed, requests need Proxy-Authorization.
type Access struct {
	From    From
	Clients []Client
}

// From is a set of client addresses. The zero value holds none.
type From struct {
	Any      bool
	Loopback bool
	Private  bool // RFC 1918, fc00::/7 and link-local
	Prefixes []netip.Prefix
}

// Contains tells whether a client at a may connect.
func (f From) Contains(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	switch {
	case !a.IsValid():
		return false
	case f.Any,
		f.Loopback && a.IsLoopback(),
		f.Private && (a.IsPrivate() || a.IsLinkLocalUnicast()):
		return true
	}
	return slices.ContainsFunc(f.Prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
}

// read reads access.from.
func (f *From) read(in *input) {
	from := From{}
	words := map[string]*bool{"any": &from.Any, "loopback": &from.Loopback, "private": &from.Private}
	for i, s := range in.items {
		if word, ok := words[s]; ok {
			if *word {
				in.fail(i, fmt.Errorf("%s is listed twice", s))
			}
			*word = true
			continue
		}
		prefix, err := parsePrefix(s, "any", "loopback", "private")
		switch {
		case err != nil:
			in.fail(i, err)
		case slices.Contains(from.Prefixes, prefix):
			in.fail(i, fmt.Errorf("%s is listed twice", prefix))
		default:
			from.Prefixes = append(from.Prefixes, prefix)
		}
	}
	switch {
	case len(in.items) == 0:
		in.fail(-1, errors.New("is empty, so nobody could connect"))
	case from.Any && len(in.items) > 1:
		in.fail(-1, errors.New("any is everybody; leave the others out"))
	}
	*f = from
}

// String is the set as it would be written.
func (f From) String() string {
	var words []string
	if f.Any {
		words = append(words, "any")
	}
	if f.Loopback {
		words = append(words, "loopback")
	}
	if f.Private {
		words = append(words, "private")
	}
	if len(f.Prefixes) > 0 {
		words = append(words, prefixes(f.Prefixes))
	}
	return strings.Join(words, ", ")
}

// public are the networks of f that strangers on the internet may be in.
func (f From) public() []netip.Prefix {
	var found []netip.Prefix
	for _, p := range f.Prefixes {
		inside := func(name string) bool {
			o := netip.MustParsePrefix(name)
			return o.Addr().Is4() == p.Addr().Is4() && o.Bits() <= p.Bits() && o.Contains(p.Addr())
		}
		if !slices.ContainsFunc(ownNetworks, inside) {
			found = append(found, p)
		}
	}
	return found
}

// fromNode is the schema of access.from.
func fromNode() Node {
	item := EitherNode(WordNode("any", "loopback", "private"), networkNode())
	return EitherNode(item, SequenceNode(item, 1))
}
