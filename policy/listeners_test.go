package policy

import (
	"slices"
	"strings"
	"testing"
)

func TestTheOpenListenerIsThePortAfterThatOfListen(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "127.0.0.1:3129",
		"listen: 127.0.0.1:8080":  "127.0.0.1:8081",
		"listen: :3128":           ":3129",
		"listen: '[::1]:3128'":    "[::1]:3129",
		"listen: 127.0.0.1:0":     "127.0.0.1:0",
		"listen: 127.0.0.1:65535": "",
		"listen_open: off":        "",

		"admin: {listen: 127.0.0.1:3129}":                           "127.0.0.1:3130",
		"listen: 127.0.0.1:8080\nadmin: {listen: localhost:8081}":   "127.0.0.1:8082",
		"listen: 127.0.0.1:65534\nadmin: {listen: 127.0.0.1:65535}": "",
		"listen_open: 127.0.0.1:4000":                               "127.0.0.1:4000",
		"intercept: none":                                           "",
		"intercept: all":                                            "127.0.0.1:3129",
		"intercept: none\nlisten_open: 127.0.0.1:4000":              "127.0.0.1:4000",
	} {
		p := load(t, text)
		if p.Open.Listen != want || p.Open.Default == strings.Contains(text, "listen_open") {
			t.Errorf("%q: %+v, want %q", text, p.Open, want)
		}
	}
	p, err := loadSource(t, Source{Environ: []string{"ABIDE_LISTEN_OPEN=127.0.0.1:4001"}, Flags: map[string]string{"listen": "127.0.0.1:5000"}})
	if err != nil || p.Open != (OpenListener{Listen: "127.0.0.1:4001"}) {
		t.Errorf("from the environment: %+v, %v", p, err)
	}
}

func TestAnOpenListenerIsRefusedWhereItCannotBe(t *testing.T) {
	for text, want := range map[string]string{
		"listen_open: 127.0.0.1:3128": "is the address of listen already",
		"listen_open: 127.0.0.1:9128": "is the address of admin.listen already",
		"listen_open: 3129":           "needs an address too",
		"listen_open: yes":            "needs a port",
		"sites: [{host: a.test, backends: [http://127.0.0.1:3129]}]": "is this proxy itself",
		"egress: {proxy: 'http://127.0.0.1:3129'}":                   "is this proxy itself",
		"listen_open: 0.0.0.0:3129\naccess: {from: [any]}":           "access.clients must be set",
	} {
		if _, err := loadSource(t, Source{Data: []byte(text)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if load(t, "listen_open: 0.0.0.0:3129").Local() {
		t.Error("an open listener on every address is taken for one of this machine alone")
	}
}

func TestAClientWithASecretMayHaveAllItsHTTPSOpened(t *testing.T) {
	const client = "access: {clients: [{name: news, secret: s, intercept: %}, {name: shop, secret: s}]}"
	p := load(t, strings.Replace(client, "%", "all", 1))
	if !p.Access.Clients[0].OpensAll || p.Access.Clients[1].OpensAll {
		t.Errorf("%+v", p.Access.Clients)
	}
	if _, err := loadSource(t, Source{Data: []byte(strings.Replace(client, "%", "none", 1))}); err == nil || !strings.Contains(err.Error(), `access.clients[0].intercept: "none" is not all`) {
		t.Errorf("intercept: none of a client: %v", err)
	}
}

func TestTheCAMayVouchForAnyNameWhereAClientCanHaveAllOpened(t *testing.T) {
	for text, any := range map[string]bool{
		"":                 true,
		"listen_open: off": false,
		"intercept: none":  false,
		"listen_open: off\naccess: {clients: [{name: news, secret: s, intercept: all}]}": true,
		"listen_open: off\nintercept: all":                                               true,
	} {
		if names := load(t, text).InterceptNames(); (names == nil) != any {
			t.Errorf("%q: %v", text, names)
		}
	}
}

func TestWhatBecomesOfHTTPS(t *testing.T) {
	const rules = "sites: [{host: seen.test, limits: [{requests: 1, per: 1s}]}, {host: bare.test}, {host: out.test, learn: false}]\nintercept: "
	hosts := []string{"seen.test", "bare.test", "out.test", "other.test"}
	for mode, want := range map[string]string{
		"auto":        "needed auto excluded auto / needed open open open",
		"all":         "needed open open open / needed open open open",
		"none":        "none none none none / needed open open open",
		"[bare.test]": "unlisted needed excluded unlisted / needed needed open open",
	} {
		p, got := load(t, rules+mode), []string{}
		for _, trusting := range []bool{false, true} {
			if trusting {
				got = append(got, "/")
			}
			for _, host := range hosts {
				switch to := p.Interception(host, 443, trusting); {
				case to.Open && to.Needed:
					got = append(got, "needed")
				case to.Open:
					got = append(got, "open")
				default:
					got = append(got, string(to.Why))
				}
			}
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%s: %s\nwant %s", mode, text, want)
		}
	}
	quiet := []Unread{UnreadNone, UnreadExcluded}
	for _, why := range []Unread{UnreadAuto, UnreadUnlisted, UnreadNone, UnreadExcluded, UnreadRefused} {
		if remedy := Defaults().UnreadRemedy(why); (remedy == "") != slices.Contains(quiet, why) {
			t.Errorf("%s: %q", why, remedy)
		}
		run := *Defaults()
		run.Open = OpenListener{Off: true, Run: true}
		remedy := run.UnreadRemedy(why)
		for _, cannot := range []string{"abide reload", "abide env", `"abide run"`} {
			if (remedy == "") != slices.Contains(quiet, why) || strings.Contains(remedy, cannot) {
				t.Errorf("%s under abide run: %q", why, remedy)
			}
		}
	}
}
