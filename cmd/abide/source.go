package main

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
)

// defaultFile is the configuration file in the working directory, and systemFile that of the
// machine. They are read when no other is named.
const (
	defaultFile = "abide.yaml"
	systemFile  = "/etc/abide/abide.yaml"
)

// The names of documents that are no files.
const (
	yamlVariable  = "ABIDE_CONFIG_YAML"
	standardInput = "standard input"
)

// maxFile bounds the bytes that are read of a configuration. policy refuses smaller files
// already; maxFile keeps an endless one (/dev/zero) out of memory.
const maxFile = 16 << 20

// source reads a command's policy from a file, the environment and flags. Any goroutine can
// read it again.
type source struct {
	path    string    // of the file; "" for none, and for the document of yamlVariable
	name    string    // of the document, for faults
	found   bool      // nothing names the file; path is one of usualFiles, or ""
	notes   []string  // warnings about files of usualFiles in whose directory this user may not look
	in      io.Reader // the standard input, which the path "-" names
	environ []string
	flags   map[string]string // key → text

	// defaults are those of the command, where they differ from those of the
	// configuration: key → text.
	defaults map[string]string

	// fit adapts each policy that is loaded to a command that has an abide for itself, whose ports are free ones by then;
	// nil: the policy is used as written.
	fit func(p, written *policy.Policy) error

	// allowEmpty has a file without any keys taken although the configuration before it
	// had rules, pools or clients.
	allowEmpty bool

	last atomic.Pointer[document] // nil: none was loaded
}

// document is a configuration as it was loaded last.
type document struct {
	once  []byte            // its text, if it cannot be read again; nil: it can
	sum   [sha256.Size]byte // of its text
	empty bool              // it had no keys
}

// sourceOf finds the configuration of a command. A file that is named must exist.
func sourceOf(cmd *cobra.Command) (*source, error) {
	if f := cmd.Flags().Lookup("config"); f != nil && f.Changed {
		if f.Value.String() == "" {
			return nil, usage(errors.New("--config names no file"))
		}
		return sourceAt(cmd, f.Value.String()), nil
	}
	path, text := os.Getenv("ABIDE_CONFIG"), os.Getenv(yamlVariable)
	if policy.HasNoDocument([]byte(text)) {
		text = "" // as in an example that waits for rules: a file beside it holds
	}
	switch {
	case path != "" && text != "":
		return nil, usage(errors.New("ABIDE_CONFIG names a configuration, and " + yamlVariable + " is another; unset one"))
	case text != "":
		s := sourceAt(cmd, "")
		s.name = yamlVariable
		s.last.Store(&document{once: []byte(text)})
		return s, nil
	case path != "":
		return sourceAt(cmd, path), nil
	}
	var notes []string
	for _, one := range usualFiles(os.Getenv) {
		_, err := os.Lstat(one)
		if errors.Is(err, fs.ErrPermission) {
			notes = append(notes, fmt.Sprintf("this user may not look for a configuration in %s, so abide goes on without: set HOME to a directory of this user, or name a file with --config or ABIDE_CONFIG", filepath.Dir(one)))
		} else if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			path = one
			break
		}
	}
	s := sourceAt(cmd, path)
	s.found, s.notes = true, notes
	return s, nil
}

// sourceAt returns the configuration of a command with the file at a path.
func sourceAt(cmd *cobra.Command, path string) *source {
	name := path
	if path == "-" {
		name = standardInput
	}
	return &source{path: path, name: name, in: cmd.InOrStdin(), environ: os.Environ(), flags: flagsOf(cmd.Flags())}
}

// usualFiles lists the files of which the first that exists is read where none is named: in the
// working directory, of the user, of the machine.
func usualFiles(getenv func(string) string) []string {
	files := []string{defaultFile}
	config := getenv("XDG_CONFIG_HOME")
	if home := getenv("HOME"); !filepath.IsAbs(config) && filepath.IsAbs(home) {
		config = filepath.Join(home, ".config")
	}
	if filepath.IsAbs(config) {
		files = append(files, filepath.Join(config, "abide", defaultFile))
	}
	if runtime.GOOS != "windows" { // there everybody may make a directory /etc
		files = append(files, systemFile)
	}
	return files
}

// load reads the configuration. An error has the exit status for a wrong configuration.
func (s *source) load() (*policy.Policy, error) {
	from, err := s.document()
	if err != nil {
		return nil, usage(s.explained(fmt.Errorf("reading the configuration: %w", err)))
	}
	from.Environ, from.Flags, from.Defaults, from.Notes = s.environ, s.flags, s.defaults, s.notes
	p, err := policy.Load(from)
	if err != nil || s.fit == nil {
		return p, s.explained(err)
	}
	return s.onFreePorts(p)
}

// onFreePorts returns p with free ports of 127.0.0.1 for the listeners, and no open listener, fitted to the command:
// for an abide that a command has for itself. After the command only what it left behind still sends.
func (s *source) onFreePorts(p *policy.Policy) (*policy.Policy, error) {
	for _, key := range []string{"listen", "listen_open"} {
		if _, given := s.flags[key]; given {
			return nil, usage(fmt.Errorf("--%s is for abide serve: this command has a proxy of its own on a free port of 127.0.0.1", flagOf(key)))
		}
	}
	ours := *p
	ours.Listen, ours.Open, ours.Admin.Listen = "127.0.0.1:0", policy.OpenListener{Off: true}, "127.0.0.1:0"
	ours.TLS, ours.Admin.TLS = policy.KeyPair{}, policy.KeyPair{}
	ours.Timeouts.Drain = min(ours.Timeouts.Drain, runDrain)
	return &ours, s.fit(&ours, p)
}

// runDrain bounds timeouts.drain of an abide that a command has for itself.
const runDrain = time.Second

// explained adds why a file was read that nobody has named, and how to do without.
func (s *source) explained(err error) error {
	if err == nil || !s.found || s.path != systemFile && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return fmt.Errorf("%w\n%s is read because no other configuration is named: --config FILE names one, --config /dev/null none", err, s.path)
}

// document returns the configuration file, or what is in its place. What cannot be read again,
// such as standard input, is kept and returned each time.
func (s *source) document() (policy.Source, error) {
	from := policy.Source{Path: s.path, Data: []byte{}}
	if s.name != s.path {
		from.Path, from.Name = "", s.name
	}
	last := cmp.Or(s.last.Load(), &document{})
	if last.once != nil || s.path == "" {
		from.Data = append(from.Data, last.once...)
		return from, nil
	}
	again := s.rereadable()
	data, err := readFile(s.path, s.in)
	if err != nil {
		return from, err
	}
	from.Data, last = data, &document{sum: sha256.Sum256(data), empty: policy.HasNoKeys(data)}
	if !again {
		last.once = data
	}
	s.last.Store(last)
	return from, nil
}

// emptiedError is an error where the file that was loaded last has no keys, and the running
// configuration has rules, pools or clients.
func (s *source) emptiedError(running *policy.Policy) error {
	last := s.last.Load()
	rules, pools, clients := len(running.Sites), len(running.Pools), len(running.Access.Clients)
	if last == nil || !last.empty || s.allowEmpty || rules+pools+clients == 0 {
		return nil
	}
	return policy.Faults{{Source: s.name, Line: 1, Text: fmt.Sprintf(
		"has no settings any more, while the running configuration has %s, %s and %s; "+
			"write them again, or start abide with --allow-empty if the file is meant to be empty",
		countText(rules, "rule"), countText(pools, "pool"), countText(clients, "client"))}}
}

// countText is a number with its noun.
func countText(n int, noun string) string { return status.Number(n, noun, noun+"s") }

// rereadable tells whether there is a file that can be read more than once. Opening a pipe
// again, as in --config <(…), would wait for a writer that never comes.
func (s *source) rereadable() bool {
	if s.path == "" || s.path == "-" {
		return false
	}
	info, err := os.Stat(s.path)
	return err != nil || info.Mode().IsRegular()
}

// changed tells whether the file's content differs from the last load. A file that was
// removed has changed.
func (s *source) changed() bool {
	if !s.rereadable() {
		return false
	}
	data, err := readFile(s.path, nil)
	last := s.last.Load()
	return err != nil || last == nil || last.sum != sha256.Sum256(data)
}

// readFile reads a file, or in for the path "-".
func readFile(path string, in io.Reader) (data []byte, err error) {
	if path == "-" && in != nil {
		path = standardInput
		data, err = io.ReadAll(io.LimitReader(in, maxFile+1))
	} else {
		data, err = policy.ReadFile(path, maxFile+1)
	}
	if _, named := errors.AsType[*fs.PathError](err); err != nil && !named {
		err = fmt.Errorf("reading %s: %w", path, err)
	}
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("%s has more than %d MiB", path, maxFile>>20)
	}
	return data, err
}

// openInput opens a file, or standard input for "-". name names the input in errors.
func openInput(cmd *cobra.Command, path string) (in io.ReadCloser, name string, err error) {
	if path == "-" {
		return io.NopCloser(cmd.InOrStdin()), standardInput, nil
	}
	in, err = os.Open(path)
	return in, path, err
}

// eachLine writes what use makes of each line of a file, and on standard error what is wrong with lines, with their places.
// wrong is not nil for a line that is longer than so many bytes. bad tells whether there was any fault.
func eachLine(cmd *cobra.Command, path string, longest int, use func(line []byte, wrong error) (out []byte, fault error)) (bad bool, err error) {
	in, name, err := openInput(cmd, path)
	if err != nil {
		return false, err
	}
	defer in.Close()
	lines, out := bufio.NewReaderSize(in, longest+len("\r\n")), bufio.NewWriterSize(cmd.OutOrStdout(), 64<<10)
	for number := 1; err == nil; number++ {
		var line, made []byte
		var fault error
		if line, err = lines.ReadSlice('\n'); errors.Is(err, bufio.ErrBufferFull) {
			line, fault = nil, fmt.Errorf("is longer than %s", policy.Size(longest))
		}
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = lines.ReadSlice('\n')
		}
		if len(line) > 0 || fault != nil {
			made, fault = use(line, fault)
			_, _ = out.Write(made) // Flush returns the error
		}
		if fault != nil || lines.Buffered() == 0 { // output comes before the errors about it, and the next line may wait for it
			if err := out.Flush(); err != nil {
				return bad, err
			}
		}
		if fault != nil {
			bad = true
			fmt.Fprintf(cmd.ErrOrStderr(), "%s:%d: %v\n", name, number, fault)
		}
	}
	if !errors.Is(err, io.EOF) {
		return bad, fmt.Errorf("reading %s: %w", name, err)
	}
	return bad, nil
}

// loadPolicy is the policy of a command that needs it once.
func loadPolicy(cmd *cobra.Command) (*policy.Policy, error) {
	s, err := sourceOf(cmd)
	if err != nil {
		return nil, err
	}
	return s.load()
}

// flagged are the settings that have a flag. Others are set in the file or in the environment.
var flagged = []string{
	"listen", "listen_open", "admin.listen", "admin.ca", "data", "intercept", "egress.proxy", "egress.ports", "egress.roots",
	"log.level", "log.format", "log.access", "strict_state", "timeouts.drain",
}

// flagOf is the flag of such a setting: admin of admin.listen, log-level of log.level.
func flagOf(key string) string {
	return strings.NewReplacer("admin.listen", "admin", "timeouts.", "", ".", "-", "_", "-").Replace(key)
}

func addFlags(flags *pflag.FlagSet) {
	flags.String("config", "", "`file` to read the configuration from, - for standard input (or $ABIDE_CONFIG)")
	for _, key := range policy.Keys() {
		if !slices.Contains(flagged, key.Name) {
			continue
		}
		help := key.Doc + " (or $" + variable(key)
		if key.Default != "" {
			help += "; default " + key.Default
		}
		help += ")"
		// Backquotes would name the value; its kind already does.
		flags.Var(&text{kind: key.Kind}, flagOf(key.Name), strings.ReplaceAll(help, "`", "'"))
		if key.Kind == "switch" || key.Name == "log.access" {
			flags.Lookup(flagOf(key.Name)).NoOptDefVal = "true"
		}
	}
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
	for _, key := range flagged {
		if f := flags.Lookup(flagOf(key)); f != nil && f.Changed {
			given[key] = f.Value.String()
		}
	}
	return given
}
