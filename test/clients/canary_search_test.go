package clients

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// canary is a secret that nobody else has, so that wherever it is found it came
// from its pool. Its core has no letters that any encoding would change.
type canary struct {
	core, secret string
	hosts        []string // where it may arrive
}

// newCanary is another one in every run.
func newCanary(hosts ...string) canary {
	core := "cnry" + strings.ToLower(rand.Text())
	return canary{core: core, secret: core + "+/&~", hosts: hosts}
}

// forms are what a text with it has, whatever was done to it.
func (c canary) forms() []string {
	list := []string{
		c.core, strings.ToUpper(c.core),
		hex.EncodeToString([]byte(c.core)), strings.ToUpper(hex.EncodeToString([]byte(c.core))),
		strings.Trim(fmt.Sprint([]byte(c.core)), "[]"), fmt.Sprintf("% x", c.core), strings.Trim(fmt.Sprintf("%#v", []byte(c.core)), "[]byte{}"),
		reversed(c.core),
	}
	for before := range 3 {
		// What stands before it shifts the letters; the first and the last ones
		// depend on its neighbours.
		text := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("x", before) + c.core))
		text = text[(before*4+2)/3 : len(text)-1]
		list = append(list, text, strings.NewReplacer("+", "-", "/", "_").Replace(text), url.QueryEscape(text))
	}
	var percent strings.Builder
	for _, b := range []byte(c.core) {
		fmt.Fprintf(&percent, "%%%02x", b)
	}
	return append(list, percent.String(), strings.ToUpper(percent.String()))
}

// in tells in which form it is in a text, and around there; "" is not at all.
func (c canary) in(text string) string {
	for _, form := range c.forms() {
		if at := strings.Index(text, form); at >= 0 {
			return text[max(at-200, 0):min(at+len(form)+80, len(text))]
		}
	}
	return ""
}

func reversed(s string) string {
	b := []byte(s)
	for i, j := 0, len(b)-1; i < j; i, j = i+1, j-1 {
		b[i], b[j] = b[j], b[i]
	}
	return string(b)
}

func TestACanaryIsFoundInEveryForm(t *testing.T) {
	c := newCanary()
	for _, text := range []string{
		c.secret, "Bearer " + c.secret, url.QueryEscape(c.secret), hex.EncodeToString([]byte("id:" + c.secret)), fmt.Sprint([]byte(c.secret)),
		base64.StdEncoding.EncodeToString([]byte(c.secret)), base64.StdEncoding.EncodeToString([]byte("a" + c.secret)), base64.URLEncoding.EncodeToString([]byte("ab" + c.secret)),
		base64.StdEncoding.EncodeToString([]byte("id:" + c.secret + ":")), fmt.Sprintf("%x", c.secret), fmt.Sprintf("%X", c.secret), fmt.Sprintf("%q", c.secret), fmt.Sprintf("%#v", []byte(c.secret)),
	} {
		if c.in("before "+text+" after") == "" {
			t.Errorf("it is not found in %q", text)
		}
	}
	if newCanary().in(c.secret) != "" {
		t.Error("another one is")
	}
}
