package main

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/abide-proxy/abide/policy"
)

// settingFlags are the settings that have a flag: key → flag. Other settings are set in the
// file or in the environment.
var settingFlags = map[string]string{
	"listen":         "listen",
	"listen_open":    "listen-open",
	"admin.listen":   "admin",
	"data":           "data",
	"intercept":      "intercept",
	"egress.proxy":   "egress-proxy",
	"egress.ports":   "egress-ports",
	"egress.roots":   "egress-roots",
	"log.level":      "log-level",
	"log.format":     "log-format",
	"log.access":     "log-access",
	"strict_state":   "strict-state",
	"timeouts.drain": "drain",
}

func addFlags(flags *pflag.FlagSet) {
	flags.String("config", "", "`file` to read the configuration from (or $ABIDE_CONFIG)")
	for _, key := range policy.Keys() {
		name, ok := settingFlags[key.Name]
		if !ok {
			continue
		}
		help := key.Doc + " (or $" + variable(key)
		if key.Default != "" {
			help += "; default " + key.Default
		}
		help += ")"
		// Backquotes would name the value; its kind already does.
		flags.Var(&text{kind: key.Kind}, name, strings.ReplaceAll(help, "`", "'"))
		if key.Kind == "switch" || key.Name == "log.access" {
			flags.Lookup(name).NoOptDefVal = "true"
		}
	}
}

// detachedValue is an error where a word is the value of a switch, such as --log-access, and
// stands apart from the switch; else nil.
func detachedValue(flags *pflag.FlagSet, word string) error {
	switch word {
	case "on", "off", "true", "false":
	default:
		return nil
	}
	var err error
	flags.Visit(func(f *pflag.Flag) {
		if f.NoOptDefVal != "" && f.Value.String() == f.NoOptDefVal && err == nil {
			err = usage(fmt.Errorf("%q stands apart from --%s; write --%s=%s", word, f.Name, f.Name, word))
		}
	})
	return err
}

// variable is the environment variable of a setting, for texts. policy reads two for
// admin.listen.
func variable(key policy.Key) string {
	if key.Name == "admin.listen" {
		return "ABIDE_ADMIN"
	}
	return key.Env
}

// text is the value of a flag as written. policy parses it like the file and the
// environment.
type text struct{ kind, value string }

func (t *text) String() string     { return t.value }
func (t *text) Set(s string) error { t.value = s; return nil }
func (t *text) Type() string       { return t.kind }

// flagsOf are the settings on the command line: key → text.
func flagsOf(flags *pflag.FlagSet) map[string]string {
	given := map[string]string{}
	for key, name := range settingFlags {
		if f := flags.Lookup(name); f != nil && f.Changed {
			given[key] = f.Value.String()
		}
	}
	return given
}
