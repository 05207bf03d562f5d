package policy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestASecretOfTheEnvironmentMayBeInAFile(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	token, store := file("token", "canary-1\r\n"), file("store", "redis://:canary-2@r.test\n")
	hop, news := file("hop", "http://u:canary-3@hop.test:3128"), file("news", "canary 4")
	const text = "access: {clients: [{name: n, secret: ${NEWS}}]}\n"
	p, err := loadSource(t, Source{Path: "abide.yaml", Data: []byte(text), Environ: []string{
		"ABIDE_ADMIN_TOKEN_FILE=" + token, "ABIDE_STORE_FILE=" + store, "ABIDE_EGRESS_PROXY_FILE=" + hop, "NEWS_FILE=" + news, "ABIDE_ADMIN_TOKEN=",
	}})
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Admin.Token.Reveal(); got != "canary-1" {
		t.Errorf("admin.token is %q", got)
	}
	if p.Store.Kind != "redis" || p.Egress.ProxyPassword.Reveal() != "canary-3" || p.Access.Clients[0].Secret.Reveal() != "canary 4" {
		t.Errorf("store %v, next hop %v, client %q", p.Store.Kind, p.Egress.Proxy, p.Access.Clients[0].Secret.Reveal())
	}

	for name, one := range map[string]struct {
		environ []string
		says    string
	}{
		"both":          {[]string{"ABIDE_ADMIN_TOKEN=canary-5", "ABIDE_ADMIN_TOKEN_FILE=" + token, "NEWS=x"}, "ABIDE_ADMIN_TOKEN and ABIDE_ADMIN_TOKEN_FILE are both set"},
		"both of a ref": {[]string{"NEWS=canary-6", "NEWS_FILE=" + news}, "abide.yaml:1: access.clients[0].secret: refers to the variable NEWS: NEWS and NEWS_FILE are both set"},
		"no file":       {[]string{"ABIDE_ADMIN_TOKEN_FILE=" + filepath.Join(dir, "canary-7"), "NEWS=x"}, "ABIDE_ADMIN_TOKEN_FILE names a file that cannot be read: no such file"},
		"empty":         {[]string{"NEWS_FILE=" + file("empty", "\n")}, "NEWS_FILE names a file that is empty"},
		"a directory":   {[]string{"NEWS_FILE=" + dir}, "NEWS_FILE names a file that cannot be read"},
		"a plain key":   {[]string{"ABIDE_LISTEN_FILE=" + news, "NEWS=x"}, "ABIDE_LISTEN_FILE: is a variable that abide does not know"},
	} {
		_, err := loadSource(t, Source{Path: "abide.yaml", Data: []byte(text), Environ: one.environ})
		if err == nil || !strings.Contains(err.Error(), one.says) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAVariableThatBeatsTheFileIsWarnedOf(t *testing.T) {
	const text = "listen: 127.0.0.1:1\nadmin: {token: canary-1}\ndata: /x\nstore: redis://r.test\n"
	warned := func(text string, flags map[string]string, environ ...string) string {
		t.Helper()
		p, err := loadSource(t, Source{Path: "/etc/abide/abide.yaml", Data: []byte(text), Environ: environ, Flags: flags})
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range p.Warnings() {
			if strings.HasPrefix(one, "the environment beats") {
				return one
			}
		}
		return ""
	}
	got := warned(text, nil, "ABIDE_LISTEN=127.0.0.1:2", "ABIDE_ADMIN_TOKEN=canary-2", "ABIDE_DATA=/x", "ABIDE_LOG_LEVEL=debug")
	want := "the environment beats /etc/abide/abide.yaml: ABIDE_LISTEN is 127.0.0.1:2, and not 127.0.0.1:1 in line 1; ABIDE_ADMIN_TOKEN, and not admin.token in line 2; "
	if !strings.HasPrefix(got, want) || strings.Contains(got, "canary") {
		t.Errorf("%q, not %q", got, want)
	}
	for name, got := range map[string]string{
		"the same value":     warned(text, nil, "ABIDE_DATA=/x"),
		"the file names it":  warned("admin: {token: \"${ABIDE_ADMIN_TOKEN}\"}\n", nil, "ABIDE_ADMIN_TOKEN=x"),
		"not in the file":    warned("", nil, "ABIDE_LISTEN=127.0.0.1:2"),
		"a flag beats both":  warned(text, map[string]string{"listen": "127.0.0.1:3"}, "ABIDE_LISTEN=127.0.0.1:2"),
		"nothing in between": warned(text, map[string]string{"listen": "127.0.0.1:3"}),
	} {
		if got != "" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// What the operator has written comes first, and the rules before all.
func TestDescribeBeginsWithWhatIsWritten(t *testing.T) {
	p := load(t, "queue: {wait: 5m}\nlisten: 127.0.0.1:1\nsites: [{host: a.test}]\npools: {x: {env: X}}\n")
	var order []string
	for _, part := range p.Parts(nil) {
		about := part.About
		if part.BuiltIn {
			about = "built in " + about
		}
		order = append(order, about)
	}
	const want = "configuration, sites[0], pool x, proxy, queue, built in other sites, built in learn, built in admin, "
	if got := strings.Join(order, ", "); !strings.HasPrefix(got, want) || strings.Contains(got, "built in queue") {
		t.Errorf("the order is %s", got)
	}
}
