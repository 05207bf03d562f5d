package policy

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// setting is one scalar key: how it is read, and how its value is written. The
// file, the environment and the command line all come through here, so that a
// value means the same everywhere.
type setting struct {
	Key
	shape shape
	text  text
	read  func(p *Policy, in *input)
	show  func(p *Policy) string
}

// shape is how YAML writes the value. In a variable or a flag a list is
// separated by commas, a map too, with = between key and value.
type shape int

const (
	single shape = iota
	list
	pairs
)

// text is what a value may say, and what may be said of it.
type text int

const (
	plainText  text = iota
	secretText      // ${NAME} is replaced, and the value is never quoted
	secretURL       // the same, for a URL with a password somewhere in it
)

// input is the text of one value, and where relative paths in it start.
type input struct {
	items []string // one, unless the shape is another
	base  string
	home  string
	fail  func(item int, err error) // item is -1 for the value as a whole
}

func (in *input) value() string { return in.items[0] }

func durationSetting(name, doc string, at func(*Policy) *time.Duration) setting {
	return upToSetting(name, doc, longest, at)
}

func upToSetting(name, doc string, most time.Duration, at func(*Policy) *time.Duration) setting {
	return setting{
		Key: Key{Name: name, Kind: "duration", Doc: doc},
		read: func(p *Policy, in *input) {
			d, err := parseDuration(in.value())
			if err == nil && d > most {
				err = fmt.Errorf("%s is more than %s", quote(in.value()), formatDuration(most))
			}
			if err != nil {
				in.fail(-1, err)
				return
			}
			*at(p) = d
		},
		show: func(p *Policy) string { return formatDuration(*at(p)) },
	}
}

func sizeSetting(name, doc string, at func(*Policy) *Size) setting {
	return setting{
		Key: Key{Name: name, Kind: "size", Doc: doc},
		read: func(p *Policy, in *input) {
			s, err := parseSize(in.value())
			if err != nil {
				in.fail(-1, err)
				return
			}
			*at(p) = s
		},
		show: func(p *Policy) string { return at(p).String() },
	}
}

func countSetting(name, doc string, least int64, at func(*Policy) *int) setting {
	return rangeSetting(name, doc, least, math.MaxInt32, at)
}

func rangeSetting(name, doc string, least, most int64, at func(*Policy) *int) setting {
	return setting{
		Key: Key{Name: name, Kind: "number", Doc: doc},
		read: func(p *Policy, in *input) {
			n, err := parseCount(in.value(), least, most)
			if err != nil {
				in.fail(-1, err)
				return
			}
			*at(p) = int(n)
		},
		show: func(p *Policy) string { return strconv.Itoa(*at(p)) },
	}
}

// autoSetting is a count that is worked out where it says auto.
func autoSetting(name, doc string, at func(*Policy) *int) setting {
	s := countSetting(name, doc, 1, at)
	number, show := s.read, s.show
	s.read = func(p *Policy, in *input) {
		if in.value() == "auto" {
			*at(p) = 0
			return
		}
		number(p, in)
	}
	s.show = func(p *Policy) string {
		if *at(p) == 0 {
			return "auto"
		}
		return show(p)
	}
	return s
}

func switchSetting(name, doc string, at func(*Policy) *bool) setting {
	return setting{
		Key: Key{Name: name, Kind: "switch", Doc: doc},
		read: func(p *Policy, in *input) {
			on, err := parseSwitch(in.value())
			if err != nil {
				in.fail(-1, err)
				return
			}
			*at(p) = on
		},
		show: func(p *Policy) string { return strconv.FormatBool(*at(p)) },
	}
}

func wordSetting(name, doc string, at func(*Policy) *string, words ...string) setting {
	return setting{
		Key: Key{Name: name, Kind: strings.Join(words, "|"), Doc: doc},
		read: func(p *Policy, in *input) {
			w, err := parseWord(in.value(), words...)
			if err != nil {
				in.fail(-1, err)
				return
			}
			*at(p) = w
		},
		show: func(p *Policy) string { return *at(p) },
	}
}

func addressSetting(name, doc string, off bool, at func(*Policy) *string) setting {
	return setting{
		Key: Key{Name: name, Kind: "address", Doc: doc},
		read: func(p *Policy, in *input) {
			if off && (in.value() == "" || in.value() == "off") {
				*at(p) = ""
				return
			}
			a, err := parseListen(in.value())
			if err != nil {
				in.fail(-1, err)
				return
			}
			*at(p) = a
		},
		show: func(p *Policy) string {
			if *at(p) == "" {
				return "off"
			}
			return *at(p)
		},
	}
}
