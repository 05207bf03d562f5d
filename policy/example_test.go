package policy

import (
	"bytes"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/abide-proxy/abide/limit"
)

const examplePath = "../config.example.yaml"

func readExample(t *testing.T) []byte {
	t.Helper()
	data, err := os.ReadFile(examplePath)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestTheExampleStatesTheDefaults(t *testing.T) {
	lookup := environ("HOME", "/home/somebody")
	got, err := loadSource(t, Source{Path: examplePath, Lookup: lookup})
	if err != nil {
		t.Fatal(err)
	}
	want := defaults(lookup)
	usual := want.settings()
	for i, s := range got.settings() {
		if g, w := s.show(), usual[i].show(); g != w {
			t.Errorf("%s is %s in the example and %s by default", s.Name, g, w)
		}
	}
	got.File, got.index, got.Sites, got.written = "", index{}, nil, nil
	if !reflect.DeepEqual(got, want) {
		t.Errorf("example and defaults differ:\n%+v\n%+v", got, want)
	}
}

func TestTheExampleHasEveryKeyThatIsAvailable(t *testing.T) {
	text := string(readExample(t))
	for _, key := range Keys() {
		name := key.Name[strings.LastIndexByte(key.Name, '.')+1:]
		has := regexp.MustCompile(`(?m)^ *#? *` + name + `:`).MatchString(text)
		if !has {
			t.Errorf("%s is missing from the example", key.Name)
		}
	}
}

func TestEveryExampleInTheExampleLoads(t *testing.T) {
	// Lines that begin with # and no space replace the defaults of the same key,
	// and what is indented below them belongs to them.
	var out []string
	begun := ""
	replaced := map[string]bool{}
	example := regexp.MustCompile(`^( *)#(\S.*|  +\S.*)$`)
	key := regexp.MustCompile(`^( *)([a-z_]+):`)
	for _, line := range strings.Split(string(readExample(t)), "\n") {
		m := example.FindStringSubmatch(line)
		if m == nil || m[2][0] == ' ' && begun != m[1]+"#" {
			begun = ""
			if !strings.HasPrefix(strings.TrimSpace(line), "#") {
				out = append(out, line)
			}
			continue
		}
		begun = m[1] + "#"
		text := m[1] + m[2]
		if k := key.FindStringSubmatch(text); k != nil && !replaced[k[0]] {
			replaced[k[0]] = true
			out = slices.DeleteFunc(out, func(s string) bool { return strings.HasPrefix(s, k[0]) })
		}
		out = append(out, text)
	}
	text := strings.Join(out, "\n")
	p, err := loadSource(t, Source{Data: []byte(text), Lookup: environ("HOME", "/home/somebody", "ABIDE_ADMIN_TOKEN", "a", "NEWS_SECRET", "b", "SHOP_SECRET", "c", "NEXT_HOP_SECRET", "d/@", "MAPS_KEY", "e", "STORE_SECRET", "f/@")})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	limits := 0
	for _, s := range p.Sites {
		limits += len(s.Limits)
	}
	if p.Store.Password.Reveal() != "f/@" || p.Store.DB != 2 || p.Shard != (Shard{17, 100, "url"}) || p.Sites[3].Outage != "strict" || p.Sites[1].Limits[0].Unit != Bytes {
		t.Errorf("a store, a shard or bytes that were not read: %+v", p)
	}
	if len(p.Pools) < 4 || p.Pool("example").Column != "bearer_token" || p.Pool("forum").OAuth2.TokenURL == "" || !p.Pool("maps").Anonymous ||
		p.Sites[6].Learn || !p.Sites[8].Insecure || p.Sites[8].Dialect == nil || len(p.Sites[8].Dialect.Headers) != 2 {
		t.Errorf("pools and dialects that were not read: %+v", p)
	}
	if len(p.Sites) != 9 || limits != 12 || len(p.Defaults.Limits) != 2 || len(p.Sites[3].Backends) != 3 || !p.Sites[3].Sticky || !p.Sites[4].Robots || !p.Sites[4].Coalesce || len(p.Access.Clients) != 2 || p.Egress.ProxyPassword.Reveal() != "d/@" || len(p.Intercept.Patterns) != 2 || p.Admin.Token.Empty() {
		t.Errorf("examples that were not read: %+v", p)
	}
}

func TestEveryKindOfLimitIsDocumented(t *testing.T) {
	for page, mark := range map[string]string{
		"../docs/limits.md": "`", "../docs/fleet.md": "`", "../docs/state.md": "`", "../config.example.yaml": "",
	} {
		data, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range limit.Kinds() {
			if !bytes.Contains(data, []byte(mark+kind+mark)) {
				t.Errorf("%s does not name %s", page, kind)
			}
		}
	}
}

func TestEveryExampleInTheGuideOfLimitsLoads(t *testing.T) {
	data, err := os.ReadFile("../docs/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	lookup := environ("NEWS_SECRET", "a", "SHOP_SECRET", "b")
	blocks := yamlOf(data)
	for i, block := range blocks {
		p, err := loadSource(t, Source{Data: block, Lookup: lookup})
		if err != nil {
			t.Fatalf("%v\n%s", err, block)
		}
		if i > 0 {
			continue
		}
		rule := p.Match(Target{Host: "api.example.com", Port: 443}).Rule
		for path, want := range map[string]int{"/2/tweets/17/retweeted_by": 3, "/2/users/5": 2} {
			n := 0
			for i := range rule.Limits {
				if rule.Limits[i].Covers("GET", path) {
					n++
				}
			}
			if n != want {
				t.Errorf("%s takes from %d limits, want %d", path, n, want)
			}
		}
	}
	limits := regexp.MustCompile("`(\\{.*?\\})`").FindAllStringSubmatch(string(data), -1)
	for _, one := range limits {
		load(t, "sites: [{host: a.test, limits: ["+one[1]+"]}]")
	}
	if len(blocks) != 4 || len(limits) < 11 {
		t.Errorf("%d files and %d limits were found", len(blocks), len(limits))
	}
}

func TestTheExampleInTheGuideOfBackendsLoads(t *testing.T) {
	data, err := os.ReadFile("../docs/backends.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := yamlOf(data)
	if len(blocks) != 2 {
		t.Fatalf("%d files were found", len(blocks))
	}
	p, err := loadSource(t, Source{Data: blocks[0]})
	if err != nil || len(p.Sites[0].Backends) != 3 || len(p.Sites[0].Limits) != 2 {
		t.Errorf("%+v, %v", p, err)
	}
	p, err = loadSource(t, Source{Data: blocks[1]})
	if err != nil || len(p.Sites[0].Backends) != 3 || len(p.Sites[0].Backends[1].Limits) != 2 {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestTheExampleInTheGuideOfFleetsLoads(t *testing.T) {
	data, err := os.ReadFile("../docs/fleet.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := yamlOf(data)
	if len(blocks) != 1 {
		t.Fatalf("%d files were found", len(blocks))
	}
	p, err := loadSource(t, Source{Data: blocks[0], Lookup: environ("STORE_SECRET", "a", "HOME", "/home/somebody")})
	if err != nil || !p.Store.Shared() || p.Shard.Of != 100 || p.Sites[1].Outage != "strict" || len(p.Warnings()) > 0 {
		t.Errorf("%+v, %v", p, err)
	}
	urls := regexp.MustCompile("(?m)^\\| `(redis.*?)` \\|").FindAllSubmatch(data, -1)
	for _, one := range urls {
		load(t, "store: \""+string(one[1])+"\"")
	}
	limits := regexp.MustCompile("`(\\{.*?\\})`").FindAllSubmatch(data, -1)
	for _, one := range limits {
		load(t, "sites: [{host: a.test, limits: ["+string(one[1])+"]}]")
	}
	if len(urls) != 5 || len(limits) != 2 {
		t.Errorf("%d stores and %d limits were found", len(urls), len(limits))
	}
}

// yamlOf are the configurations in a guide.
func yamlOf(guide []byte) [][]byte {
	var all [][]byte
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(guide, -1) {
		all = append(all, block[1])
	}
	return all
}

func TestEveryExampleInTheGuidesOfTokensAndLearningLoads(t *testing.T) {
	for path, want := range map[string]int{"../docs/tokens.md": 4, "../docs/learning.md": 1} {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		blocks := yamlOf(data)
		if len(blocks) < want { // a guide may get more of them
			t.Errorf("%s has %d files, as far as this test sees", path, len(blocks))
		}
		for _, block := range blocks {
			p, err := loadSource(t, Source{Data: block, Lookup: environ("HOME", "/home/somebody")})
			if err != nil {
				t.Fatalf("%v\n%s", err, block)
			}
			if got := p.Warnings(); len(got) > 0 {
				t.Errorf("%s: %q", path, got)
			}
			if p.Sites[0].Pool == "" && p.Sites[0].Dialect == nil {
				t.Errorf("%s has a rule with neither pool nor dialect:\n%s", path, block)
			}
		}
	}
}
