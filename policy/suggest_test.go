package policy

import (
	"strings"
	"testing"
)

// everyKey is what the file may say, and the words that its values may be.
func everyKey() []string {
	words := []string{
		"sites", "pools", "limits", "host", "name", "group", "pool", "insecure", "learn", "dialect", "priority", "robots", "coalesce", "backends", "balance", "sticky", "outage",
		"requests", "bytes", "cost", "concurrency", "per", "as", "by", "method", "path", "each", "burst", "min", "max", "stall", "timezone",
		"file", "column", "label", "account", "env", "dir", "tokens", "put", "oauth2", "reserve", "exhausted", "anonymous", "secret", "weight", "token_url", "scopes", "url",
		"rolling", "fixed", "first-use", "bucket", "paced", "quota", "adaptive", "token", "client", "route", "day", "week", "month",
	}
	for _, s := range Defaults().settings() {
		words = append(words, s.Name[strings.LastIndex(s.Name, ".")+1:])
	}
	return words
}

func TestLikelyMisspellingsAreRecognised(t *testing.T) {
	words := everyKey()
	for wrong, want := range map[string]string{
		// left out, doubled, swapped, mistaken for a neighbour
		"lisetn": "listen", "lsiten": "listen", "listn": "listen", "listten": "listen", "Listen": "listen",
		"limit": "limits", "limts": "limits", "limtis": "limits", "limt": "limits", "lmits": "limits",
		"reqeusts": "requests", "request": "requests", "requets": "requests", "requst": "requests", "rquests": "requests", "requestes": "requests",
		"concurency": "concurrency", "concurrancy": "concurrency", "concurency_": "concurrency", "councurrency": "concurrency", "concurrent": "concurrency",
		"backend": "backends", "bakcends": "backends", "backedns": "backends", "ballance": "balance", "balence": "balance",
		"hots": "host", "hsot": "host", "nmae": "name", "naem": "name",
		"piority": "priority", "prioritiy": "priority", "prioirty": "priority", "coalesc": "coalesce", "colaesce": "coalesce",
		"intrecept": "intercept", "intercpet": "intercept", "dialekt": "dialect", "methode": "method", "metod": "method",
		"idlePerHost": "idle_per_host", "per-site": "per_site", "persite": "per_site", "tunnelIdle": "tunnel_idle", "tunel_idle": "tunnel_idle",
		"annonymous": "anonymous", "anonymus": "anonymous", "exausted": "exhausted", "exhausetd": "exhausted", "resreve": "reserve",
		"timzone": "timezone", "time_zone": "timezone", "tiemzone": "timezone", "bukcet": "bucket", "qouta": "quota", "qutoa": "quota",
		"adaptative": "adaptive", "addaptive": "adaptive", "firstuse": "first-use", "roling": "rolling", "pacd": "paced",
		"dya": "day", "moth": "month", "monht": "month", "wek": "week", "weke": "week", "clinet": "client", "tokne": "token", "rotue": "route",
		"colum": "column", "columm": "column", "lable": "label", "secert": "secret", "wieght": "weight", "tokenurl": "token_url", "scope": "scopes",
		"acces": "access", "levle": "level", "lvel": "level", "fromat": "format", "brust": "burst", "stal": "stall", "mx": "max", "imn": "min", "pr": "per",
		"cookies": "", "ist": "", "hist": "",
	} {
		if got := nearest(wrong, words); got != want {
			t.Errorf("%q is near %q, want %q", wrong, got, want)
		}
	}
}

func TestUnrelatedWordsAreNoMisspellings(t *testing.T) {
	words := everyKey()
	for _, other := range strings.Fields(`
		user password username login cookie header agent domain ssl verify cert key address timezone_offset
		proxy proxies upstream downstream server servers worker workers thread threads process pid
		rate throttle delay interval period window duration ttl expires cache redis sqlite database table row
		debug verbose quiet silent color theme lang locale country region zone cluster shard_count replica
		cpu ram disk swap ulimit nice cron daily weekly hourly yearly may mat dog cat is it to of in the and foo bar baz qux x
		secure reduce metric metrics_path large tiny huge fast slow best worst first second third last
		json yaml toml xml csv html http https tls dns ipv4 ipv6 tcp udp socks socks5 unix pipe
		boost ghost lost best bath tile same code mouse house horse sort post must just
		banana elephant configuration application environment authentication authorization`) {
		if got := nearest(other, words); got != "" && bare(got) != bare(other) {
			t.Errorf("%q is taken for %q", other, got)
		}
	}
}

func TestAVariableIsComparedWithoutThePrefixThatAllHave(t *testing.T) {
	known := []string{"ABIDE_LISTEN", "ABIDE_LOG_LEVEL", "ABIDE_DATA", "ABIDE_MODE", "ABIDE_STORE"}
	for wrong, want := range map[string]string{
		"ABIDE_LISTN": "ABIDE_LISTEN", "ABIDE_LOGLEVEL": "ABIDE_LOG_LEVEL", "ABIDE_DTAA": "ABIDE_DATA",
		"ABIDE_USER": "", "ABIDE_FOO": "", "ABIDE_HOME": "", "ABIDE_X": "", "ABIDE_": "",
		"ABIDE_MODE": "",
	} {
		if got := nearest(wrong, known); got != want {
			t.Errorf("%q is near %q, want %q", wrong, got, want)
		}
	}
}
