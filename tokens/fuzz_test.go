package tokens

import (
	"bytes"
	"encoding/csv"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/abide-proxy/abide/policy"
)

// loadText is Load without a file.
func loadText(p policy.Pool, data []byte) (*Loaded, error) {
	l := &loader{pool: p, indexBySecret: map[id]int{}, out: &Loaded{}}
	l.source = "a"
	l.text(data)
	return l.done()
}

// check is what holds of every source.
func check(t *testing.T, data []byte, p policy.Pool) {
	t.Helper()
	l, err := loadText(p, data)
	if err != nil {
		var faults policy.Faults
		if l != nil || !errors.As(err, &faults) || len(faults) == 0 || len(faults) > maxFaults+1 {
			t.Fatalf("%v, %v", l, err)
		}
		for _, one := range faults {
			if one.Source != "a" || strings.ContainsAny(one.Text, "\r\n\x00") || len(one.Text) > 300 {
				t.Fatalf("%q", one.Error())
			}
		}
		return
	}
	if len(l.Entries) == 0 {
		t.Fatal("no tokens, and no error")
	}
	seen := map[string]bool{}
	labels := map[string]bool{}
	for _, e := range l.Entries {
		secret := e.Secret.Reveal()
		if secret == "" || len(secret) > maxSecretBytes || strings.ContainsAny(secret, "\r\n\x00 \t") || seen[secret] {
			t.Fatalf("%q", secret)
		}
		if e.Label != "" && (labels[e.Label] || revealsSecret(secret, e.Label)) {
			t.Fatalf("%q", e.Label)
		}
		seen[secret], labels[e.Label] = true, true
		r := &http.Request{Header: http.Header{}, URL: &url.URL{}}
		(&placement{where: p.Put, name: "Authorization"}).Apply(r, e.Secret)
		var b bytes.Buffer
		if err := r.Header.Write(&b); err != nil || strings.Count(b.String(), "\n") != 1 || !strings.Contains(b.String(), secret) {
			t.Fatalf("%q", b.String())
		}
	}
	if _, err := New(start, p, l, nil); err != nil {
		t.Fatal(err)
	}
}

func FuzzCSV(f *testing.F) {
	for _, s := range []string{
		"", "t,l\ns1,alice\n", "\ufefft,l\r\n\"s1\",\"al\"\"ice\"\r\n", "t;l\ns1;a\n", "t\tl\ns1\ta", "l,t,t\n", "t,l\n\"s\n1\",a\n",
		"t,l\ns1,a\nt,l\ns1,b\n,\n", "t,l\ns1,s1\n", "t,l\n\"", "t,l\ns 1,\x00\n", "s1,s2\n", "t,l\ns1,a\ns2,a\ns3,a~2\n", "t,l\n0,a\n2,a",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p := policy.Pool{Column: "t", Label: "l", Put: bearer()}
		check(t, data, p)

		// What a CSV writer writes is read as it was.
		if len(data) < 3 || secretFault(string(data)) != nil || unusable(&p, string(data)) != nil || trim(string(data)) != string(data) {
			return
		}
		var b bytes.Buffer
		w := csv.NewWriter(&b)
		_ = w.WriteAll([][]string{{"t", "l"}, {string(data), "a"}})
		if l, err := loadText(p, b.Bytes()); err != nil || l.Entries[0].Secret.Reveal() != string(data) {
			t.Fatalf("%q is read as %v, %v", data, l, err)
		}
	})
}

func FuzzLines(f *testing.F) {
	for _, s := range []string{"", "s1\n", "# a\n\n s1 \r\ns2", "\ufeffs1\rs2", "s1\x00", "s1 # b", "\xff\xfes\x00", strings.Repeat("x", 9000), "s1\ns1\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		check(t, data, policy.Pool{Put: bearer()})
	})
}

func FuzzQuery(f *testing.F) {
	for _, s := range []string{"", "k=1", "&&k", "a=1&K=2&%6b=3", "%zz&k=%zz", "k;k=1", "=&=k"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		put, err := newPlacement(policy.Placement{Where: "query", Name: "k"})
		if err != nil {
			t.Fatal(err)
		}
		r := &http.Request{URL: &url.URL{RawQuery: raw}}
		put.Apply(r, policy.NewSecret("s&1"))
		once := r.URL.RawQuery
		values, _ := url.ParseQuery(once)
		if got := values["k"]; len(got) != 1 || got[0] != "s&1" || len(values["K"]) != 0 {
			t.Fatalf("%q: %q", raw, once)
		}
		if put.Apply(r, policy.NewSecret("s&1")); r.URL.RawQuery != once {
			t.Fatalf("%q, then %q", once, r.URL.RawQuery)
		}
	})
}
