package policy

import (
	"os"
	"path/filepath"
	"time"

	"github.com/abide-proxy/abide/limit"
)

// Policy is the whole configuration with every default filled in. It is
// immutable after Load; Defaults returns one too. Most callers want Match and
// Interception.
type Policy struct {
	File string // path or name of what the configuration was read from, "" for the defaults

	Listeners
	Storage
	Log Log

	Access    Access
	Egress    Egress
	Intercept Intercept
	Timeouts  Timeouts
	Bounds    Bounds
	Metrics   Metrics
	Abide     Abide

	Queue   Queue
	Retry   Retry
	Breaker Breaker
	Rules
	Mode  string // enforce | observe
	Shard Shard

	written map[string]Fault // key → where it was set, for what is not at its default
	beaten  []string         // what variables say against the file
	notes   []string         // Source.Notes
}

// Observes tells that nothing is held back: what would have waited is counted and
// reported.
func (p *Policy) Observes() bool { return p.Mode == "observe" }

// Log configures the log of the process and the access log. Lines is the format of the latter in a
// file and on stdout; Access is "" for none.
type Log struct{ Level, Format, Access, Lines string }

// Timeouts bound every wait on a peer. The table of settings says what each is for.
type Timeouts struct {
	Header, Handshake, Idle, Stall, Connect, Answer, Upload, TunnelIdle, TunnelLife, Drain time.Duration
}

// Bounds keep what strangers can make this process hold. The table of settings says what each
// bounds.
type Bounds struct {
	Connections       int // 0 derives it from the open-file limit
	PerClient         int // 0 is the same as Connections
	Upload            Size
	IdlePerHost, Idle int
	Certificates      int
}

// Metrics bounds the labels: at most Sites sites, then "other".
type Metrics struct{ Sites int }

// Abide is about the Abide-* response headers.
type Abide struct{ Headers bool }

// Queue bounds how many requests wait, and how long. A request that would wait longer than Wait is
// refused at once.
type Queue struct {
	Max, PerSite int
	Wait, Aging  time.Duration
}

// Retry bounds replays.
type Retry struct {
	Attempts, Refusals int
	Base, Max          time.Duration
	Body, Memory       Size // of one request that is kept to be sent again, and of all of them
}

// Breaker leaves a site, or one backend of it, alone for Pause when Failures
// requests in a row have failed there. Failures of 0 turns it off.
type Breaker struct {
	Failures int
	Pause    time.Duration
}

// Shard is the part of all URLs that this crawler owns. Of 0 owns them all.
type Shard struct {
	Index, Of int
	By        string // url | host
}

// Defaults is the configuration of an empty file, with the data directory in
// this user's home.
func Defaults() *Policy { return defaults(os.LookupEnv) }

func defaults(lookup func(string) (string, bool)) *Policy {
	return &Policy{
		Listeners: Listeners{
			Listen: "127.0.0.1:3128",
			Open:   OpenListener{Listen: "127.0.0.1:3129", Default: true},
			Admin:  Admin{Listen: "127.0.0.1:9128"},
		},
		Storage:   Storage{Data: dataDir(lookup), Store: Store{Kind: "local"}},
		Log:       Log{Level: "info", Format: "text", Lines: "json"},
		Access:    Access{From: From{Loopback: true}},
		Egress:    Egress{Ports: Ports{List: []uint16{80, 443}}},
		Intercept: Intercept{Mode: "auto"},
		Timeouts: Timeouts{
			Header:     10 * time.Second,
			Handshake:  10 * time.Second,
			Idle:       90 * time.Second,
			Stall:      time.Minute,
			Connect:    15 * time.Second,
			Answer:     5 * time.Minute,
			Upload:     time.Hour,
			TunnelIdle: 15 * time.Minute,
			TunnelLife: 24 * time.Hour,
			Drain:      30 * time.Second,
		},
		Bounds:  Bounds{Upload: 16 * gib, IdlePerHost: 256, Idle: 4096, Certificates: 10000},
		Metrics: Metrics{Sites: 1000},
		Abide:   Abide{Headers: true},
		Queue:   Queue{Max: 10000, PerSite: 2000, Wait: 30 * time.Minute, Aging: 30 * time.Second},
		Retry: Retry{
			Attempts: 4, Refusals: 20, Base: 500 * time.Millisecond, Max: time.Minute,
			Body: mib, Memory: 256 * mib,
		},
		Breaker: Breaker{Failures: 10, Pause: 30 * time.Second},
		Rules: Rules{
			Defaults: Unnamed{Limits: []Limit{{As: limit.Concurrency, Unit: Concurrency, Amount: 32}}, Learn: true},
		},
		Mode:  "enforce",
		Shard: Shard{By: "url"},
	}
}

// Rules has the operator's rules for sites, their pools of tokens, and the rules for all
// other sites.
type Rules struct {
	Defaults Unnamed
	Pools    []Pool
	Sites    []Site

	index index // of Sites, by host
}

// Unnamed has the rules for sites that no rule names.
type Unnamed struct {
	Limits []Limit
	Learn  bool
}

// Storage configures the places of state: the data directory, the CA and the store of budgets.
type Storage struct {
	Data string // absolute directory, or "none" to keep nothing
	// StrictState ends abide when the state of an earlier run cannot be read; without it
	// that state is set aside.
	StrictState bool
	CA          KeyPair // for the https that is opened; none: abide makes its own
	Store       Store
}

// dataDir returns the directory for state by the XDG base directory specification, "none"
// without a home directory.
func dataDir(lookup func(string) (string, bool)) string {
	if state, ok := lookup("XDG_STATE_HOME"); ok && filepath.IsAbs(state) {
		return filepath.Join(state, "abide")
	}
	if home := homeDir(lookup); home != "" {
		return filepath.Join(home, ".local", "state", "abide")
	}
	return "none"
}
