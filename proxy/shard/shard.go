// Package shard says which of n crawlers owns a URL, so that a fleet divides its work
// without communication: no list is needed, and every process that knows n gets the same answer.
//
//	key, err := shard.Key("HTTP://Example.com:80/a?b=c", shard.URL) // http://example.com/a?b=c
//	owner := shard.Owner(key, 100)                                   // 0 to 99
//
// A key is hashed by SHA-256, of which the first 8 bytes count: every language has it
// in its library, no two write it differently, and it spreads keys that differ in one
// digit as well as any others. The owner is found by jump consistent hash (Lamping and
// Veach, 2014): each part has the same share, and when n becomes n+1, one key in n+1
// moves, always to the new part. There is no state, and it is five lines in any
// language; docs/fleet.md has them in Python.
package shard

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/abide-proxy/abide/policy"
)

// By selects the property that distinguishes parts.
type By string

// The values of By.
const (
	URL  By = "url"  // each URL; the zero value is the same
	Host By = "host" // all URLs of a host together, whatever the port
)

// Longest is the longest accepted URL in bytes.
const Longest = 1 << 20

var (
	errScheme  = errors.New("is no URL that begins with http:// or https://")
	errControl = errors.New("has a control character inside")
	errLong    = fmt.Errorf("is longer than %d bytes", Longest)
)

// Key is the hashed text of a URL: equal for all equivalent spellings. Scheme and host are
// in lower case and ASCII; default port, user, password and fragment are left out. Escapes
// are normalised, dot segments removed, and an empty path is /. The query keeps its order
// and meaning. By Host the key is the host alone.
//
// The error contains nothing of the URL, which may contain a password.
func Key(url string, by By) (string, error) {
	url = strings.TrimSpace(url)
	if len(url) > Longest {
		return "", errLong
	}
	if strings.ContainsFunc(url, func(c rune) bool { return c < ' ' || c == 0x7f }) {
		return "", errControl
	}
	scheme, rest, ok := strings.Cut(url, "://")
	scheme = strings.ToLower(scheme)
	if !ok || scheme != "http" && scheme != "https" {
		return "", errScheme
	}
	rest, _, _ = strings.Cut(rest, "#")
	authority, path := rest, ""
	if end := strings.IndexAny(rest, "/?"); end >= 0 {
		authority, path = rest[:end], rest[end:]
	}
	authority = authority[strings.LastIndexByte(authority, '@')+1:]
	target, err := policy.ParseTarget(scheme, authority)
	if err != nil {
		return "", fmt.Errorf("has a host that %w", errors.Unwrap(err)) // which leaves out what stands there
	}
	path, query, _ := strings.Cut(path, "?")
	return KeyOf(target, path, query, by), nil
}

// KeyOf is the key of a request with a path and query as sent.
func KeyOf(t policy.Target, escapedPath, rawQuery string, by By) string {
	if by == Host {
		return t.Host
	}
	path := undotted(policy.NormalPath(escapedPath))
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	if query := policy.NormalQuery(rawQuery); query != "" {
		path += "?" + query
	}
	return t.Origin() + path
}

// undotted removes the segments . and .. of a path, which most clients resolve before
// sending.
func undotted(path string) string {
	if !strings.Contains(path, "/.") {
		return path
	}
	var kept []string
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i, one := range parts {
		switch {
		case one == ".." && len(kept) > 0:
			kept = kept[:len(kept)-1]
		case one != "." && one != "..":
			kept = append(kept, one)
			continue
		}
		if i == len(parts)-1 {
			kept = append(kept, "") // a directory ends in a slash
		}
	}
	return "/" + strings.Join(kept, "/")
}

// Owner is the part, from 0 to n-1, that a key belongs to. With n of 1 or less it is 0.
func Owner(key string, n int) int {
	return jump(hash(key), n)
}

func hash(key string) uint64 {
	sum := sha256.Sum256([]byte(key))
	return binary.BigEndian.Uint64(sum[:8])
}

// jump is the last jump below n. The division is exactly that of the paper, in floating
// point as in every language.
func jump(h uint64, n int) int {
	at, next := int64(0), int64(0)
	for next < int64(n) {
		at = next
		h = h*2862933555777941757 + 1
		next = int64(float64(at+1) * (float64(1<<31) / float64(h>>33+1)))
	}
	return int(at)
}

// OwnsSite tells whether all of a site belongs to this policy's part: the site has one
// host, and that host belongs to it.
func OwnsSite(p *policy.Policy, site string) bool {
	if p.Shard.Of < 2 || By(p.Shard.By) != Host {
		return false
	}
	t, err := policy.ParseTarget("https", site)
	if err != nil {
		return false
	}
	m := p.Match(t)
	if m.Site != site || m.Rule != nil && m.Rule.Group != "host" {
		return false
	}
	return Owner(t.Host, p.Shard.Of) == p.Shard.Index
}
