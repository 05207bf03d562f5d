package learn

import (
	"os"
	"strings"
	"testing"
	"time"
)

// examples has a value of each form.
var examples = map[Form]string{
	List:   "200,2000",
	Ratio:  "api-usage=18/5000",
	Named:  "reads;197,writes;12",
	Suffix: "12",
	Usage:  `{"call_count":28}`,
	Hertz:  "2.5",
}

func TestEveryFormIsRead(t *testing.T) {
	for _, form := range forms {
		text, known := examples[form]
		if !known {
			t.Errorf("%s has no example", form)
			continue
		}
		dialect := &Dialect{Headers: []Header{{
			Name: "calls-*", Is: IsLimit, Form: form, Of: "calls", Windows: []time.Duration{time.Second, time.Minute},
		}}}
		if err := dialect.Check(); err != nil {
			t.Errorf("%s: %v", form, err)
		}
		r := Request{Method: "GET", Host: "api.example.com", Path: "/", Dialect: dialect}
		if l := Read(200, headersOf([2]string{"Calls-1m", text}), nil, r, base); len(l.Limits) == 0 {
			t.Errorf("%s: nothing is read of %s", form, text)
		}
	}
}

func TestTheDocumentationHasEveryFormAndRole(t *testing.T) {
	page, err := os.ReadFile("../../docs/learning.md")
	if err != nil {
		t.Fatal(err)
	}
	for key, words := range map[string][]string{"form": Forms(), "is": Roles()} {
		_, row, _ := strings.Cut(string(page), "\n| `"+key+"` |")
		row, _, _ = strings.Cut(row, "\n")
		for _, word := range words {
			if !strings.Contains(row, "`"+word+"`") {
				t.Errorf("docs/learning.md: the row of %s does not have %s", key, word)
			}
		}
	}
}
