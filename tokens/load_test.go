package tokens

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/abide-proxy/abide/policy"
)

func bearer() policy.Placement {
	return policy.Placement{Where: "header", Name: "Authorization", Before: "Bearer "}
}

// file is a file of secrets that its owner alone may read.
func file(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// inside is what was loaded, as label=secret.
func inside(l *Loaded) string {
	var all []string
	for _, e := range l.Entries {
		all = append(all, e.Label+"="+e.Secret.Reveal())
	}
	return strings.Join(all, " ")
}

func TestACSVHasTheSecretsInTheColumnThatTheConfigurationNames(t *testing.T) {
	for name, one := range map[string]struct{ content, want string }{
		"plain":           {"account,bearer_token\nalice,s1\nbob,s2\n", "alice=s1 bob=s2"},
		"no last newline": {"account,bearer_token\nalice,s1", "alice=s1"},
		"BOM and CRLF":    {"\ufeffaccount,bearer_token\r\nalice,s1\r\nbob,s2\r\n", "alice=s1 bob=s2"},
		"BOM and quotes":  {"\ufeff\"account\",\"bearer_token\"\n\"al,ice\",\"s1\"\n", "al,ice=s1"},
		"order, extras":   {"x,bearer_token,y,account\n,s1,\"a \"\"b\"\"\",alice\n", "alice=s1"},
		"spaces":          {" account , bearer_token \n alice , s1 \n", "alice=s1"},
		"blank rows":      {"account,bearer_token\n\nalice,s1\n,\n\n", "alice=s1"},
		"semicolons":      {"account;bearer_token\nalice;s1\n", "alice=s1"},
		"tabs":            {"account\tbearer_token\nalice\ts1\n", "alice=s1"},
		"no label":        {"account,bearer_token\n,s1\nbob,s2\n", "=s1 bob=s2"},
		"header again":    {"account,bearer_token\nalice,s1\naccount,bearer_token\nbob,s2\n", "alice=s1 bob=s2"},
		"same label":      {"account,bearer_token\nalice,s1\nalice,s2\nalice~2,s3\n", "alice=s1 alice~3=s2 alice~2=s3"},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := Load(t.Context(), policy.Pool{File: file(t, "a.csv", one.content), Column: "bearer_token", Label: "account", Put: bearer()}, Surroundings{})
			if err != nil || inside(l) != one.want {
				t.Fatalf("%v, %v", l, err)
			}
		})
	}
}

func TestWhatIsWrongWithAFileIsSaidWithItsLineAndWithoutItsSecrets(t *testing.T) {
	const canary = "canary4711"
	for name, one := range map[string]struct{ content, want string }{
		"empty":           {"", ": is empty, and should have a header row"},
		"no column":       {"account,token\nalice," + canary + "\n", `:1: the header row has no column "bearer_token"`},
		"no header row":   {canary + "1," + canary + "2\n", `:1: the header row has no column "bearer_token"`},
		"other case":      {"account,Bearer_Token\nalice," + canary, `has no column "bearer_token", but Bearer_Token`},
		"no label":        {"acc,bearer_token\nalice," + canary, `:1: the header row has no column "account"`},
		"twice":           {"account,bearer_token,bearer_token\na,b,c\n", `has the column "bearer_token" twice`},
		"only a header":   {"account,bearer_token\n", ": has no tokens"},
		"no secret":       {"account,bearer_token\na," + canary + "\nb,\n", ":3: the secret is empty"},
		"space":           {"account,bearer_token\na,Bearer " + canary + "\n", ":2: the secret has a space inside"},
		"line break":      {"account,bearer_token\na,\"" + canary + "\nX-Evil: 1\"\n", ":2: the secret has a line break inside"},
		"lone CR":         {"account,bearer_token\na,\"" + canary + "\rX-Evil: 1\"\n", ":2: the secret has a line break inside"},
		"NUL":             {"account,bearer_token\na," + canary + "\x00\n", ":2: the secret has an invisible character inside"},
		"too long":        {"account,bearer_token\na," + canary + strings.Repeat("x", maxSecretBytes) + "\n", ":2: the secret is longer than 8192 bytes"},
		"not UTF-8":       {"account,bearer_token\na," + canary + "\xff\n", ":2: the secret is not UTF-8"},
		"not ASCII":       {"account,bearer_token\na," + canary + "ü\n", ":2: the secret has a character that is not ASCII"},
		"zero width":      {"account,bearer_token\na,x\u200b" + canary + "\n", ":2: the secret has an invisible character inside"},
		"short row":       {"account,bearer_token\na," + canary + "\nb\n", ":3: has 1 fields where the header row has 2"},
		"long row":        {"account,bearer_token\na," + canary + ",x\n", ":2: has 3 fields where the header row has 2"},
		"quote":           {"account,bearer_token\na,\"" + canary + "\"x\n", `:2: has a " in the wrong place`},
		"bare quote":      {"account,bearer_token\na," + canary + "\"x\n", `:2: has a " inside of a field`},
		"bad label":       {"account,bearer_token\na\x1bb," + canary + "\n", ":2: the label has an invisible character inside"},
		"label is secret": {"account,bearer_token\n" + canary + "," + canary + "\n", ":2: the label shows a secret"},
		"another's":       {"account,bearer_token\n" + canary + ",s2\nb," + canary + "\n", ":2: the label shows a secret"},
		"part of it":      {"account,bearer_token\n" + canary + canary + "," + canary + canary + "x\n", ":2: the label shows a secret"},
		"UTF-16":          {"\xff\xfea\x00,\x00", ": is UTF-16; save it as UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			path := file(t, "a.csv", one.content)
			_, err := Load(t.Context(), policy.Pool{File: path, Column: "bearer_token", Label: "account", Put: bearer()}, Surroundings{})
			var faults policy.Faults
			if !errors.As(err, &faults) || !strings.HasPrefix(err.Error(), path) || !strings.Contains(err.Error(), one.want) {
				t.Fatalf("%v", err)
			}
			if strings.Contains(err.Error(), canary) {
				t.Fatalf("it shows a secret: %v", err)
			}
		})
	}
	_, err := Load(t.Context(), policy.Pool{File: file(t, "a.csv", "t\ns1\n"), Column: "t", Label: "t", Put: bearer()}, Surroundings{})
	if err == nil || !strings.Contains(err.Error(), ":1: the label is the column of the secrets") {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(t.TempDir(), "none"), t.TempDir()} {
		if _, err := Load(t.Context(), policy.Pool{File: path, Put: bearer()}, Surroundings{}); err == nil || !strings.HasPrefix(err.Error(), path+": ") {
			t.Error(err)
		}
	}
}

func TestThousandsOfFaultsAreAFew(t *testing.T) {
	_, err := Load(t.Context(), policy.Pool{File: file(t, "a", strings.Repeat("a b\n", 5000)), Put: bearer()}, Surroundings{})
	var faults policy.Faults
	if !errors.As(err, &faults) || len(faults) != maxFaults+1 {
		t.Fatal(len(faults))
	}
	var many strings.Builder
	for i := range maxTokens + 5 {
		fmt.Fprintf(&many, "s%d\n", i)
	}
	if _, err = Load(t.Context(), policy.Pool{File: file(t, "a", many.String()), Put: bearer()}, Surroundings{}); !errors.As(err, &faults) || len(faults) != 1 {
		t.Fatal(err)
	}
}

func TestLinesAreSecretsExceptForCommentsAndBlankOnes(t *testing.T) {
	l, err := Load(t.Context(), policy.Pool{File: file(t, "a", "\ufeff# mine\r\ns1\r\n\r\n  s2  \n  # s3\ns4"), Put: bearer()}, Surroundings{})
	if err != nil || inside(l) != "=s1 =s2 =s4" || l.Entries[1].Line != 4 || l.Entries[1].Number != 2 {
		t.Fatalf("%+v, %v", l, err)
	}
	if _, err := Load(t.Context(), policy.Pool{File: file(t, "a", "s1\ns2 # bob's\n"), Put: bearer()}, Surroundings{}); err == nil || !strings.Contains(err.Error(), ":2: the secret has a space inside") {
		t.Fatal(err)
	}
}

func TestAVariableHasSecretsBetweenCommas(t *testing.T) {
	lookup := func(name string) (string, bool) {
		v, ok := map[string]string{"A": "s1, s2,\ns3\n,", "EMPTY": " ", "BAD": "s1,can ary"}[name]
		return v, ok
	}
	l, err := Load(t.Context(), policy.Pool{Env: "A", Put: bearer()}, Surroundings{Lookup: lookup})
	if err != nil || inside(l) != "=s1 =s2 =s3" {
		t.Fatalf("%v, %v", l, err)
	}
	for name, want := range map[string]string{
		"EMPTY": "EMPTY: the variable is not set or empty, and the pool p has its tokens from there",
		"NONE":  "NONE: the variable is not set or empty, and the pool p has its tokens from there",
		"BAD":   "BAD: secret 2 has a space inside",
	} {
		if _, err := Load(t.Context(), policy.Pool{Name: "p", Env: name, Put: bearer()}, Surroundings{Lookup: lookup}); err == nil || err.Error() != want {
			t.Error(err)
		}
	}
}

func TestInlineTokensAreLookedAtLikeOthers(t *testing.T) {
	pool := policy.Pool{Name: "p", Put: bearer(), Tokens: []policy.Token{
		{Label: "a", Secret: policy.NewSecret("s1\n"), Line: 7}, {Label: "b", Secret: policy.NewSecret("s1"), Line: 8}, {Label: "c", Secret: policy.NewSecret("s2"), Line: 9},
	}}
	l, err := Load(t.Context(), pool, Surroundings{Config: "abide.yaml"})
	if err != nil || inside(l) != "a=s1 c=s2" {
		t.Fatalf("%v, %v", l, err)
	}
	if len(l.Warnings) != 1 || l.Warnings[0].Error() != "abide.yaml:8: pools.p.tokens[1].secret is that of line 7: they are one token" {
		t.Fatal(l.Warnings)
	}
	pool.Tokens[2].Secret = policy.NewSecret("s 2")
	if _, err := Load(t.Context(), pool, Surroundings{Config: "abide.yaml"}); err == nil || err.Error() != "abide.yaml:9: pools.p.tokens[2].secret has a space inside" {
		t.Fatal(err)
	}
	if _, err := Load(t.Context(), pool, Surroundings{}); err == nil || err.Error() != "pools.p.tokens[2].secret has a space inside" {
		t.Fatal(err)
	}
}

// Kubernetes mounts a secret as links into ..data, which is a link to a dotted
// directory that it replaces as a whole.
func TestADirectoryHasOneSecretAFile(t *testing.T) {
	dir := t.TempDir()
	write := func(path, content string, mode os.FileMode) {
		t.Helper()
		path = filepath.Join(dir, path)
		if err := errors.Join(os.WriteFile(path, []byte(content), mode), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "..2026_01"), 0o700); err != nil {
		t.Fatal(err)
	}
	write("..2026_01/alice", "s1\n", 0o600)
	write("..2026_01/bob", "\ufeffs2\r\n", 0o600)
	write(".swp", "s 3", 0o600)
	for from, to := range map[string]string{"..data": "..2026_01", "alice": "..data/alice", "bob": "..data/bob", "sub": "..data"} {
		if err := os.Symlink(to, filepath.Join(dir, from)); err != nil {
			t.Fatal(err)
		}
	}
	pool := policy.Pool{Dir: dir, Put: bearer()}
	l, err := Load(t.Context(), pool, Surroundings{})
	if err != nil || inside(l) != "alice=s1 bob=s2" || len(l.Warnings) > 0 {
		t.Fatalf("%v, %v, %v", l, l.Warnings, err)
	}
	write("carl", "s3", 0o644)
	write("dora", "s4", 0o640)
	l, err = Load(t.Context(), pool, Surroundings{})
	if err != nil || len(l.Warnings) != 1 || !strings.Contains(l.Warnings[0].Error(), dir+": its group may read the secrets in 2 files, such as dora") {
		t.Fatalf("%v, %v", l.Warnings, err)
	}
	write("eve", "s5\ns6\n", 0o600)
	if _, err = Load(t.Context(), pool, Surroundings{}); err == nil || err.Error() != filepath.Join(dir, "eve")+": the secret has a line break inside" {
		t.Fatal(err)
	}
	if err := os.Symlink("nowhere", filepath.Join(dir, "fred")); err != nil {
		t.Fatal(err)
	}
	if _, err = Load(t.Context(), pool, Surroundings{}); err == nil || !strings.Contains(err.Error(), filepath.Join(dir, "fred")+": does not exist") {
		t.Fatal(err)
	}
	if _, err = Load(t.Context(), policy.Pool{Dir: t.TempDir(), Put: bearer()}, Surroundings{}); err == nil || !strings.HasSuffix(err.Error(), ": has no tokens") {
		t.Fatal(err)
	}
}

func TestFilesThatOthersMayReadAreWarnedAbout(t *testing.T) {
	for mode, want := range map[os.FileMode]string{
		0o600: "", 0o400: "", 0o640: "its group may read", 0o644: "everybody on this machine may read", 0o604: "everybody on this machine may read",
	} {
		path := file(t, "a", "\ufeffs1\n")
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		link := filepath.Join(t.TempDir(), "link")
		if err := os.Symlink(path, link); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{path, link} {
			l, err := Load(t.Context(), policy.Pool{File: path, Put: bearer()}, Surroundings{})
			if err != nil || inside(l) != "=s1" {
				t.Fatalf("%v, %v", l, err)
			}
			if got := fmt.Sprint(l.Warnings); (want == "") != (len(l.Warnings) == 0) || !strings.Contains(got, want) {
				t.Errorf("%o: %s", mode, got)
			}
		}
	}
}

func TestTheSameSecretTwiceIsOneToken(t *testing.T) {
	path := file(t, "a.csv", "n,t\n,s1\nbob,s2\nalice,s1\n")
	l, err := Load(t.Context(), policy.Pool{File: path, Column: "t", Label: "n", Put: bearer()}, Surroundings{})
	if err != nil || inside(l) != "alice=s1 bob=s2" {
		t.Fatalf("%v, %v", l, err)
	}
	want := []policy.Fault{{Source: path, Line: 4, Text: "the secret is that of line 2: they are one token"}}
	if !slices.Equal(l.Warnings, want) {
		t.Fatal(l.Warnings)
	}
}

func TestASecretHasToFitWhereItGoes(t *testing.T) {
	basic := policy.Placement{Where: "basic"}
	exchanged := policy.OAuth2{TokenURL: "https://api.test/token"}
	for _, one := range []struct {
		pool   policy.Pool
		secret string
		fits   bool
	}{
		{policy.Pool{Put: basic}, "id:secret", true},
		{policy.Pool{Put: basic}, "secret", false},
		{policy.Pool{Put: policy.Placement{Where: "basic", After: ":"}}, "secret", true},
		{policy.Pool{Put: basic}, "id:ü", true},
		{policy.Pool{Put: bearer(), OAuth2: exchanged}, "id:secret", true},
		{policy.Pool{Put: bearer(), OAuth2: exchanged}, "secret", false},
		{policy.Pool{Put: bearer(), OAuth2: exchanged}, ":secret", false},
		{policy.Pool{Put: policy.Placement{Where: "query", Name: "k"}}, "ü&=", true},
	} {
		one.pool.Tokens = []policy.Token{{Label: "a", Secret: policy.NewSecret(one.secret)}}
		if _, err := Load(t.Context(), one.pool, Surroundings{}); (err == nil) != one.fits {
			t.Errorf("%+v: %v", one, err)
		}
	}
}
