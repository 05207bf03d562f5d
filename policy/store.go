package policy

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Store is the place of budgets that outlive a process or span a fleet. The fields after
// Kind are the parts of the store's URL; they are empty if Kind is local.
type Store struct {
	Kind string // local | redis | rediss | redis+sentinel | …

	Hosts    []string // "host:port" of servers, or of sentinels; or the path of a socket
	Master   string   // which of theirs sentinels are asked for
	User     string
	Password Secret
	DB       int
	Prefix   string // of every key, "" for the usual one
	TLS      bool
	CA       string // the path of a PEM file, "" for the system's

	SentinelUser     string
	SentinelPassword Secret
}

var storeKinds = []string{
	"redis", "rediss", "redis+unix", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster",
}

// storeExamples has a URL of each form of store.
var storeExamples = map[string]string{
	"unix":     "redis+unix:///run/redis/redis.sock",
	"":         "redis://user:secret@redis.example:6379",
	"sentinel": "redis+sentinel://user:secret@a.example:26379,b.example:26379/mymaster",
	"cluster":  "redis+cluster://user:secret@a.example:6379,b.example:6379",
}

// Shared tells whether several instances may share the store.
func (s *Store) Shared() bool { return s.Kind != "local" }

// Form is "unix", "sentinel" or "cluster", and "" for one server.
func (s *Store) Form() string {
	_, form, _ := strings.Cut(s.Kind, "+")
	return form
}

// local tells whether all hosts of the store are on this machine.
func (s *Store) local() bool {
	return s.Form() == "unix" || !slices.ContainsFunc(s.Hosts, func(at string) bool {
		host, _, err := net.SplitHostPort(at)
		return err != nil || !localHost(host)
	})
}

// String describes the store, without its password.
func (s Store) String() string {
	if !s.Shared() {
		return s.Kind
	}
	text := "Redis at "
	switch s.Form() {
	case "sentinel":
		text = "Redis " + s.Master + " of the sentinels "
	case "cluster":
		text = "Redis cluster of "
	}
	return text + someOf(s.Hosts) + when(s.TLS, " by TLS") + when(s.User != "", " as "+clip(s.User)) +
		when(s.DB > 0, fmt.Sprintf(", database %d", s.DB)) + when(s.Prefix != "", ", keys begin with "+s.Prefix)
}

// read reads store: a URL may name several hosts, which url.Parse does not read. Files that it names
// start where resolve says. Errors quote nothing of the value, which may hold a password.
func (s *Store) read(text string, resolve func(string) (string, error)) error {
	*s = Store{Kind: "local"}
	if text == "local" {
		return nil
	}
	scheme, rest, ok := strings.Cut(text, "://")
	switch {
	case !ok:
		return errors.New("is neither local nor a URL such as " + storeExamples[""])
	case !slices.Contains(storeKinds, scheme):
		return errors.New("has a scheme that is none of " + strings.Join(storeKinds, ", "))
	case strings.Contains(rest, "#"):
		return errors.New("has a #, which ends a URL; in a password it is %23")
	}
	s.Kind, s.TLS = scheme, strings.HasPrefix(scheme, "rediss")
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	hosts, err := s.account(authority)
	if err == nil {
		err = s.hosts(hosts)
	}
	if err == nil {
		err = s.path(path)
	}
	if err == nil {
		err = s.options(query, resolve)
	}
	return err
}

func (s *Store) example() string { return storeExamples[s.Form()] }

// account takes user and password off, and leaves the hosts.
func (s *Store) account(authority string) (hosts string, err error) {
	account, hosts, ok := cutLast(authority, "@")
	if !ok {
		return authority, nil
	}
	user, password, _ := strings.Cut(account, ":")
	user, errUser := url.PathUnescape(user)
	password, errPassword := url.PathUnescape(password)
	if errUser != nil || errPassword != nil {
		return "", errors.New("has a % in its user or password that two hexadecimal digits do not follow; a % itself is %25")
	}
	if user != "" && password == "" {
		return "", errors.New("has a user without a password; a password alone is written redis://:secret@…")
	}
	s.User, s.Password = user, NewSecret(password)
	return hosts, nil
}

func (s *Store) hosts(authority string) error {
	if s.Form() == "unix" {
		if authority != "" {
			return errors.New("has a host before its socket; write " + s.example())
		}
		return nil
	}
	usual := uint16(6379)
	if s.Form() == "sentinel" {
		usual = 26379
	}
	for one := range strings.SplitSeq(authority, ",") {
		host, port, err := splitHostPort(strings.TrimSpace(one), usual)
		if err == nil {
			host, err = CanonicalHost(host)
		}
		if err != nil {
			return fmt.Errorf("has a host that %w; write one such as %s", err, s.example())
		}
		at := net.JoinHostPort(host, strconv.Itoa(int(port)))
		if slices.Contains(s.Hosts, at) {
			return errors.New("names a host twice")
		}
		s.Hosts = append(s.Hosts, at)
	}
	if len(s.Hosts) > 1 && s.Form() != "sentinel" && s.Form() != "cluster" {
		return errors.New("names several hosts, which a cluster or sentinels have; write redis+cluster:// or redis+sentinel://")
	}
	return nil
}

// path is the number of a database, or the name that sentinels know.
func (s *Store) path(path string) error {
	path = strings.TrimSuffix(path, "/")
	switch {
	case s.Form() == "unix" && path == "":
		return errors.New("names no socket; write " + s.example())
	case s.Form() == "unix":
		s.Hosts = []string{"/" + path}
	case s.Form() == "sentinel" && path == "":
		return errors.New("needs the name of the master, such as " + s.example())
	case s.Form() == "sentinel":
		name, err := url.PathUnescape(path)
		if err != nil || strings.ContainsAny(name, "/ \r\n\x00") {
			return errors.New("has a name of the master that is none, such as " + s.example())
		}
		s.Master = name
	case path != "" && s.Form() == "cluster":
		return errors.New("has a path; a cluster has no databases")
	case path != "":
		return s.database(path)
	}
	return nil
}

func (s *Store) database(text string) error {
	n, err := parseCount(text, 0, 1<<20)
	switch {
	case err != nil:
		return errors.New("has a database that is no number, such as ?db=2")
	case s.Form() == "cluster" && n > 0:
		return errors.New("has db; a cluster has the database 0 alone")
	}
	s.DB = int(n)
	return nil
}

// options is the part of the URL after the ?.
func (s *Store) options(query string, resolve func(string) (string, error)) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return errors.New("has options that cannot be read; they look like ?db=2&prefix=crawl")
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		all, text := values[name], values[name][0]
		switch {
		case len(all) > 1:
			return errors.New("has an option twice")
		case name == "db" && s.DB > 0:
			return errors.New("has a database in its path and as db")
		case name == "db":
			err = s.database(text)
		case name == "prefix":
			err = checkPrefix(text)
			s.Prefix = text
		case name == "ca" && !s.TLS:
			err = errors.New("has ca, which is for TLS; write " + strings.Replace(s.Kind, "redis", "rediss", 1) + "://")
		case name == "ca":
			if s.CA, err = resolve(text); err != nil {
				err = errors.New("has a ca that is no path of a file")
			}
		case (name == "sentinel_user" || name == "sentinel_password") && s.Form() != "sentinel":
			err = errors.New("has an option for sentinels, which redis+sentinel:// alone has")
		case name == "sentinel_user":
			s.SentinelUser = text
		case name == "sentinel_password":
			s.SentinelPassword = NewSecret(text)
		default:
			err = errors.New("has an option that is none of db, prefix, ca, sentinel_user and sentinel_password; a ? in a password is %3F")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkPrefix refuses what would put keys into other slots of a cluster, or could not
// be typed.
func checkPrefix(s string) error {
	const most = 64
	switch {
	case s == "" || len(s) > most:
		return fmt.Errorf("has a prefix that is empty or longer than %d characters", most)
	case strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune(`{}*?[]\`, r) }):
		return errors.New("has a prefix with a character that is none of letters, digits and signs such as : . _ -")
	}
	return nil
}
