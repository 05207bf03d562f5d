package tokens

import (
	"strings"
	"testing"

	"github.com/abide-proxy/abide/policy"
)

func TestATableWithoutAColumnIsAnErrorThatListsTheColumns(t *testing.T) {
	for content, want := range map[string]string{
		"account,bearer_token\nalice,canary1\n":                     ":1: is a header row: name the column that has the secrets, such as column: bearer_token; there are account, bearer_token",
		"\ufeff\"account\";\"api key\";note\r\nalice;canary1;x\r\n": "column: api key; there are account, api key, note",
		"account\ttoken\nalice\tcanary1\n":                          "there are account, token",
		"# mine\n\naccount|secret\nalice|canary1\n":                 ":3: is a header row: name the column that has the secrets, such as column: secret; there are account, secret",
		"bearer_token\ncanary1\ncanary2\n":                          "such as column: bearer_token; there are bearer_token",
		"Token\ncanary1\n":                                          "column: Token",
		"alice,canary1\nbob,canary2\n":                              ":1: is the first row of a table with 2 columns; write a header row above it, and column: NAME into the pool",
		"alice;canary1;x\nbob;canary2;y\n":                          "a table with 3 columns",
	} {
		_, err := Load(t.Context(), policy.Pool{File: file(t, "a.csv", content), Put: bearer()}, Surroundings{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", content, err, want)
		}
		if err != nil && (strings.Contains(err.Error(), "canary") || strings.Contains(err.Error(), "alice")) {
			t.Errorf("%q: the error shows what is in the file: %v", content, err)
		}
	}
}

func TestAListStaysAList(t *testing.T) {
	for content, want := range map[string]string{
		"s1\ns2\n":                     "=s1 =s2",
		"s1\n":                         "=s1",
		"token\n":                      "=token",
		"app1|secret1\napp2|secret2\n": "=app1|secret1 =app2|secret2",
		"id:se,cret\nid2:secret\n":     "=id:se,cret =id2:secret",
		"tokenA1b2C3\ntokenD4e5F6\n":   "=tokenA1b2C3 =tokenD4e5F6",
		"abc_key_123xyz,\nother\n":     "=abc_key_123xyz, =other",
	} {
		l, err := Load(t.Context(), policy.Pool{File: file(t, "a", content), Put: bearer()}, Surroundings{})
		if err != nil || inside(l) != want {
			t.Errorf("%q: %v, %v", content, l, err)
		}
	}
}

func TestTheHeaderRowSaysWhatSeparatesTheFields(t *testing.T) {
	for _, separator := range []string{",", ";", "\t", "|"} {
		content := strings.ReplaceAll("\ufeffnote^account^\"bearer_token\"\n\"a,b;c|d\"^alice^s1\nx^bob^s2\n", "^", separator)
		pool := policy.Pool{File: file(t, "a.csv", content), Column: "bearer_token", Label: "account", Put: bearer()}
		if l, err := Load(t.Context(), pool, Surroundings{}); err != nil || inside(l) != "alice=s1 bob=s2" {
			t.Errorf("%q: %v, %v", separator, l, err)
		}
		pool.Column = "bearer"
		if _, err := Load(t.Context(), pool, Surroundings{}); err == nil || !strings.Contains(err.Error(), `:1: the header row has no column "bearer"; there are note, account, bearer_token`) {
			t.Errorf("%q: %v", separator, err)
		}
	}
}
