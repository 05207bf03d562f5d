package policy

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
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
	got, err := Load(Source{Path: examplePath, Lookup: lookup})
	if err != nil {
		t.Fatal(err)
	}
	want := defaults(lookup)
	for _, s := range settings() {
		if g, w := s.show(got), s.show(want); g != w {
			t.Errorf("%s is %s in the example and %s by default", s.Name, g, w)
		}
	}
	got.File, got.index, got.Sites = "", index{}, nil
	if !reflect.DeepEqual(got, want) {
		t.Errorf("example and defaults differ:\n%+v\n%+v", got, want)
	}
}

func TestTheExampleHasEveryKeyThatIsAvailable(t *testing.T) {
	text := string(readExample(t))
	for _, key := range Keys() {
		name := key.Name[strings.LastIndexByte(key.Name, '.')+1:]
		has := regexp.MustCompile(`(?m)^ *#?` + name + `:`).MatchString(text)
		if one := slices.ContainsFunc(laterValues, func(v laterValue) bool { return v.key == key.Name }); one || key.Later {
			continue
		}
		if !has {
			t.Errorf("%s is missing from the example", key.Name)
		}
	}
}

func TestEveryExampleInTheExampleLoads(t *testing.T) {
	// Lines that begin with # and no space replace the defaults of the same key.
	var out []string
	replaced := map[string]bool{}
	example := regexp.MustCompile(`^( *)#(\S.*|  .*)$`)
	key := regexp.MustCompile(`^( *)([a-z_]+):`)
	for _, line := range strings.Split(string(readExample(t)), "\n") {
		m := example.FindStringSubmatch(line)
		if m == nil || strings.HasPrefix(m[2], "   ") {
			if !strings.HasPrefix(strings.TrimSpace(line), "#") {
				out = append(out, line)
			}
			continue
		}
		text := m[1] + m[2]
		if k := key.FindStringSubmatch(text); k != nil && !replaced[k[0]] {
			replaced[k[0]] = true
			out = slices.DeleteFunc(out, func(s string) bool { return strings.HasPrefix(s, k[0]) })
		}
		out = append(out, text)
	}
	text := strings.Join(out, "\n")
	p, err := Load(Source{Data: []byte(text), Lookup: environ("HOME", "/home/somebody", "ABIDE_ADMIN_TOKEN", "a", "NEWS_SECRET", "b", "SHOP_SECRET", "c", "NEXT_HOP_SECRET", "d/@")})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if len(p.Sites) != 3 || len(p.Access.Clients) != 2 || p.Egress.ProxyPassword.Reveal() != "d/@" || len(p.Intercept.Patterns) != 2 || p.Admin.Token.Empty() {
		t.Errorf("examples that were not read: %+v", p)
	}
}

func TestEveryExampleInTheGuideOfLimitsLoads(t *testing.T) {
	data, err := os.ReadFile("../docs/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	lookup := environ("NEWS_SECRET", "a", "SHOP_SECRET", "b")
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(data), -1)
	for _, block := range blocks {
		p, err := Load(Source{Data: []byte(block[1]), Lookup: lookup})
		if err != nil {
			t.Fatalf("%v\n%s", err, block[1])
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
	if len(blocks) != 1 || len(limits) < 6 {
		t.Errorf("%d files and %d limits were found", len(blocks), len(limits))
	}
}
