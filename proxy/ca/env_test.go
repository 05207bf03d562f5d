package ca

import (
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func asMap(t *testing.T, env []string) map[string]string {
	t.Helper()
	m := map[string]string{}
	for _, one := range env {
		key, value, ok := strings.Cut(one, "=")
		if _, twice := m[key]; !ok || twice {
			t.Errorf("%q", one)
		}
		m[key] = value
	}
	return m
}

func TestEnvSetsWhatEveryClientReads(t *testing.T) {
	t.Setenv("JAVA_TOOL_OPTIONS", "")
	const proxy = "http://127.0.0.1:3128"
	env := asMap(t, Env(proxy, "/d/ca.pem", "/d/bundle.pem"))
	want := map[string]string{
		"HTTP_PROXY": proxy, "http_proxy": proxy, "HTTPS_PROXY": proxy, "https_proxy": proxy,
		"NO_PROXY": noProxy, "no_proxy": noProxy, "NODE_USE_ENV_PROXY": "1",
		"NODE_EXTRA_CA_CERTS": "/d/ca.pem", "DENO_CERT": "/d/ca.pem",
		"SSL_CERT_FILE": "/d/bundle.pem", "REQUESTS_CA_BUNDLE": "/d/bundle.pem", "CURL_CA_BUNDLE": "/d/bundle.pem",
		"PERL_LWP_SSL_CA_FILE": "/d/bundle.pem", "GIT_SSL_CAINFO": "/d/bundle.pem", "AWS_CA_BUNDLE": "/d/bundle.pem",
		"PIP_CERT": "/d/bundle.pem", "CARGO_HTTP_CAINFO": "/d/bundle.pem", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": "/d/bundle.pem",
	}
	for key, value := range want {
		if env[key] != value {
			t.Errorf("%s is %q, not %q", key, env[key], value)
		}
	}
	for _, option := range []string{"-Dhttp.proxyHost=127.0.0.1", "-Dhttps.proxyPort=3128", "-Djavax.net.ssl.trustStore=/d/bundle.jks"} {
		if !slices.Contains(strings.Fields(env["JAVA_TOOL_OPTIONS"]), option) {
			t.Errorf("JAVA_TOOL_OPTIONS lacks %s: %s", option, env["JAVA_TOOL_OPTIONS"])
		}
	}
}

// TestEnvKeepsHostsThatAreReachedDirectly: in both spellings, also where there are none.
func TestEnvKeepsHostsThatAreReachedDirectly(t *testing.T) {
	for _, key := range []string{"NO_PROXY", "no_proxy"} {
		t.Setenv(key, "")
		os.Unsetenv(key)
	}
	if env := asMap(t, Env("http://127.0.0.1:3128", "", "")); env["NO_PROXY"] != noProxy || env["no_proxy"] != noProxy {
		t.Errorf("without one: %v", env)
	}
	for _, own := range []string{"db.test,.svc", ""} {
		t.Setenv("no_proxy", own)
		if env := asMap(t, Env("http://127.0.0.1:3128", "", "")); env["NO_PROXY"] != own || env["no_proxy"] != own {
			t.Errorf("of %q: %v", own, env)
		}
	}
}

func TestEnvLeavesOutWhatItIsNotGiven(t *testing.T) {
	t.Setenv("JAVA_TOOL_OPTIONS", "")
	trust := asMap(t, Env("", "/d/ca.pem", "/d/bundle.pem"))
	if _, ok := trust["HTTP_PROXY"]; ok || strings.Contains(trust["JAVA_TOOL_OPTIONS"], "proxy") || trust["SSL_CERT_FILE"] == "" {
		t.Errorf("for trust alone: %v", trust)
	}
	proxy := asMap(t, Env("http://127.0.0.1:3128", "", ""))
	if _, ok := proxy["SSL_CERT_FILE"]; ok || strings.Contains(proxy["JAVA_TOOL_OPTIONS"], "trustStore") || proxy["HTTP_PROXY"] == "" {
		t.Errorf("for the proxy alone: %v", proxy)
	}
	if none := Env("", "", ""); len(none) != 0 {
		t.Errorf("for nothing: %v", none)
	}
}

func TestJavasOptionsKeepThoseOfTheUserAndGrowOnce(t *testing.T) {
	t.Setenv("JAVA_TOOL_OPTIONS", "-Xmx64m")
	once := asMap(t, Env("http://[::1]:3128", "/d/ca.pem", "/d/bundle.pem"))["JAVA_TOOL_OPTIONS"]
	if !strings.HasPrefix(once, "-Xmx64m -D") || !strings.Contains(once, "-Dhttp.proxyHost=::1 ") {
		t.Errorf("options: %s", once)
	}
	t.Setenv("JAVA_TOOL_OPTIONS", once)
	if twice := asMap(t, Env("http://[::1]:3128", "/d/ca.pem", "/d/bundle.pem"))["JAVA_TOOL_OPTIONS"]; twice != once {
		t.Errorf("options: %s", twice)
	}
}

func TestJavaReachesTheHostsOfNoProxyDirectly(t *testing.T) {
	for own, want := range map[string]string{
		"db.test,.svc, 10.0.0.7 fd00::7": "db.test|*.db.test|svc|*.svc|10.0.0.7|[fd00::7]",
		"":                               "",
		"*.internal.example":             "internal.example|*.internal.example",
	} {
		if got := javaHosts(own); got != want {
			t.Errorf("%q: %s", own, got)
		}
	}
	t.Setenv("JAVA_TOOL_OPTIONS", "")
	t.Setenv("no_proxy", "db.test")
	if java := asMap(t, Env("http://127.0.0.1:3128", "", ""))["JAVA_TOOL_OPTIONS"]; !strings.Contains(java, "-Dhttp.nonProxyHosts=db.test|*.db.test ") && !strings.HasSuffix(java, "db.test") {
		t.Error(java)
	}
}

func TestJavasOptionsNeverHoldAPassword(t *testing.T) {
	t.Setenv("JAVA_TOOL_OPTIONS", "")
	env := asMap(t, Env("http://news:hunter2@127.0.0.1:3128", "", ""))
	if strings.Contains(env["JAVA_TOOL_OPTIONS"], "hunter2") || !strings.Contains(env["http_proxy"], "hunter2") {
		t.Errorf("%v", env)
	}
}

func TestInstallingFollowsTheSystem(t *testing.T) {
	only := func(dir string) func(string) bool { return func(asked string) bool { return asked == dir } }
	for _, one := range []struct {
		goos, dir           string
		install, uninstalls string
	}{
		{
			"linux", "/usr/local/share/ca-certificates",
			"install -m 644 '/d e/ca.pem' /usr/local/share/ca-certificates/abide.crt; update-ca-certificates",
			"rm -f /usr/local/share/ca-certificates/abide.crt; update-ca-certificates --fresh",
		},
		{
			"linux", "/etc/pki/ca-trust/source/anchors",
			"install -m 644 '/d e/ca.pem' /etc/pki/ca-trust/source/anchors/abide.crt; update-ca-trust extract",
			"rm -f /etc/pki/ca-trust/source/anchors/abide.crt; update-ca-trust extract",
		},
		{
			"darwin", "",
			"security add-trusted-cert -d -r trustRoot -k /Library/Keychains/System.keychain '/d e/ca.pem'",
			"security remove-trusted-cert -d '/d e/ca.pem'; security delete-certificate -c 'abide CA 01' /Library/Keychains/System.keychain",
		},
		{"windows", "", "certutil -addstore -f ROOT '/d e/ca.pem'", "certutil -delstore ROOT 'abide CA 01'"},
	} {
		steps, err := Installation(one.goos, only(one.dir), "/d e/ca.pem")
		if got := lines(steps); err != nil || got != one.install {
			t.Errorf("%s, installing: %v\n%s", one.goos, err, got)
		}
		steps, err = Uninstallation(one.goos, only(one.dir), "/d e/ca.pem", "abide CA 01")
		if got := lines(steps); err != nil || got != one.uninstalls {
			t.Errorf("%s, uninstalling: %v\n%s", one.goos, err, got)
		}
	}
	if steps, err := Installation("linux", only(""), "ca.pem"); err == nil {
		t.Errorf("on an unknown system: %s", lines(steps))
	}
	if steps, err := Uninstallation("darwin", only(""), "", ""); err == nil {
		t.Errorf("without a CA: %s", lines(steps))
	}
}

func lines(steps []Step) string {
	var all []string
	for _, one := range steps {
		all = append(all, one.String())
	}
	return strings.Join(all, "; ")
}

func TestAShellTakesAQuotedWordAsOne(t *testing.T) {
	for _, word := range []string{"plain", "", "a b", "it's", `$(id) "x" \`, "*", "~", "line\nbreak", runtime.GOOS + ";true"} {
		if out, err := run(t, nil, "sh", "-c", "printf %s "+ShellQuoted(word)); err != nil || out != word {
			t.Errorf("%q became %q, %v", word, out, err)
		}
	}
}
