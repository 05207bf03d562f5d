package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/abide-proxy/abide/internal/disk"
	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
)

// registrationDir is the directory, in the data directory, where each running abide
// has a file named after its process ID.
const registrationDir = "run"

// unfinishedSuffix is the suffix of a registration's file while it is being written.
const unfinishedSuffix = ".new"

// Bounds of reading registrations.
const (
	maxRegistrations    = 1000
	maxRegistrationSize = 64 << 10 // bytes
)

// registration tells how to reach a running abide. Commands such as "abide status" read it,
// to find an abide with ports that the system chose.
type registration struct {
	PID     int       `json:"pid"`
	Command string    `json:"command"`       // "serve", or "run" and the program's name, without arguments: these may hold secrets
	Proxy   string    `json:"proxy"`         // address of the proxy
	Admin   string    `json:"admin"`         // address of the admin listener, "" without one; with https:// where it is read
	TLS     bool      `json:"tls,omitempty"` // the admin listener speaks TLS
	Started time.Time `json:"started"`
}

// title names an abide.
func (r registration) title() string {
	if r.PID == 0 {
		return "the abide at " + r.Admin
	}
	return fmt.Sprintf("abide %s, process %d, admin %s", status.Line(r.Command), r.PID, r.Admin)
}

// register writes the registration of this process into a data directory, until end. The file is locked
// while the process lives, so that others can tell: the process ID may belong to another
// process later, or to another container.
func register(data string, r registration) (end func(), err error) {
	dir := filepath.Join(data, registrationDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	// The file gets its name when it is locked and complete: a reader removes a file
	// that is not locked, as left over by a process that has ended. The name has a
	// random part, because two containers may have the same process ID.
	f, err := os.CreateTemp(dir, strconv.Itoa(r.PID)+"-*"+unfinishedSuffix) // with mode 0600
	if err != nil {
		return nil, err
	}
	path := strings.TrimSuffix(f.Name(), unfinishedSuffix) + ".json"
	err = lockRegistration(f)
	if err == nil {
		err = json.NewEncoder(f).Encode(r)
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		f.Close()
		return nil, err
	}
	return func() {
		_ = os.Remove(path) // a reader that still finds the file sees that it is not locked
		f.Close()
	}, nil
}

// registrations are those of the running abides with a data directory, by their start. It
// removes registrations of processes that have ended without removing theirs.
func registrations(data string) []registration {
	if data == "none" {
		return nil
	}
	dir := filepath.Join(data, registrationDir)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var list []registration
	for _, entry := range entries[:min(len(entries), maxRegistrations)] {
		path := filepath.Join(dir, entry.Name())
		switch {
		case !entry.Type().IsRegular():
		case strings.HasSuffix(path, ".json"):
			if r, runs := readRegistration(path); runs {
				list = append(list, r)
			}
		case strings.HasSuffix(path, unfinishedSuffix):
			if info, err := entry.Info(); err == nil && time.Since(info.ModTime()) > time.Minute {
				_ = os.Remove(path)
			}
		}
	}
	slices.SortFunc(list, func(a, b registration) int {
		return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.PID, b.PID))
	})
	return list
}

// readRegistration reads the registration of a running process.
func readRegistration(path string) (r registration, runs bool) {
	text, _, err := disk.Read(path, maxRegistrationSize)
	if err != nil || json.Unmarshal(text, &r) != nil || r.PID <= 0 {
		return r, false
	}
	f, err := os.Open(path)
	if err != nil {
		return r, false
	}
	defer f.Close()
	if !registrationLocked(f, r.PID) {
		_ = os.Remove(path)
		return r, false
	}
	r.Admin, _ = localAddress(r.Admin, r.TLS) // "" for none
	return r, true
}

// running are the abides that a command such as "abide status" asks: the one at --admin if
// that is given, else those that are registered in the directory of --data, else the one at
// admin.listen and all that are registered in the data directory. Without a running abide it is admin.listen alone, so that the error names the
// address. Each has an address in Admin.
func running(cmd *cobra.Command, p *policy.Policy) ([]registration, error) {
	address := adminAddress(p)
	if cmd.Flags().Changed(flagOf("admin.listen")) && address != "" {
		return []registration{{Admin: address}}, nil
	}
	off := "admin.listen is off, and "
	if cmd.Flags().Changed(flagOf("data")) && p.Data != "none" {
		address, off = "", "" // an abide there may have another directory
	}
	registered := registrations(p.Data)
	list := lists.Only(registered, func(r registration) bool { return r.Admin != "" })
	if address != "" {
		dialer, known := net.Dialer{Timeout: time.Second}, len(list) > 0
		if conn, err := dialer.DialContext(cmd.Context(), "tcp", strings.TrimPrefix(address, secure)); err == nil {
			remote := conn.RemoteAddr().String() // by its number
			conn.Close()
			known = slices.ContainsFunc(list, func(r registration) bool { return strings.TrimPrefix(r.Admin, secure) == remote })
		}
		if !known {
			list = append([]registration{{Admin: address}}, list...)
		}
	}
	switch {
	case len(list) > 0:
		return list, nil
	case len(registered) > 0:
		return nil, fmt.Errorf("an abide uses %s, and its admin.listen is off, so it cannot be asked: give it an admin.listen and start it again", p.Data)
	}
	where := filepath.Join(p.Data, registrationDir)
	if p.Data == "none" {
		where = "a data directory (data: none)"
	}
	return nil, notRunning("no proxy is running that can be asked: " + off + "no abide is registered in " + where)
}

// describeRunning lists the abides that are asked, if there are several.
func describeRunning(w io.Writer, list []abideAt) {
	if len(list) < 2 {
		return
	}
	fmt.Fprintf(w, "%d abides are running; --admin ADDRESS asks one of them\n\n", len(list))
	var t status.Table
	t.Add("COMMAND", "PID", "PROXY", "ADMIN", "SINCE")
	for _, one := range list {
		if one.PID == 0 {
			t.Add("not registered in this data directory", "-", "-", one.Admin, "-")
			continue
		}
		t.Add(one.Command, strconv.Itoa(one.PID), one.Proxy, one.Admin, one.Started.Format(time.RFC3339))
	}
	t.Write(w)
}

// askRunning asks each running abide, within liveTimeout each. The output in text has titles
// where needed, unless it is JSON. It tells whether any abide has answered, and joins the
// errors of the others.
func askRunning(cmd *cobra.Command, text *bytes.Buffer, asJSON bool, ask func(ctx context.Context, at abideAt) error) (answered bool, failed error) {
	list, api, err := findRunning(cmd)
	if err != nil {
		return false, err
	}
	api.warnGuessed(cmd, list)
	if !asJSON {
		describeRunning(text, list)
	}
	for _, one := range list {
		// One of several has a title, and a run, whose admin listener no configuration names.
		if !asJSON && (len(list) > 1 || one.PID != 0 && one.Command != "serve") {
			if text.Len() > 0 {
				text.WriteString("\n")
			}
			fmt.Fprintf(text, "%s\n", one.title())
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), liveTimeout)
		err := api.hint(ask(ctx, one))
		cancel()
		failed, answered = errors.Join(failed, err), answered || err == nil
	}
	return answered, failed
}

// printRunning asks each running abide, as askRunning does, and prints what ask writes.
func printRunning(cmd *cobra.Command, asJSON bool, ask func(ctx context.Context, text *bytes.Buffer, at abideAt) error) error {
	var text bytes.Buffer
	_, failed := askRunning(cmd, &text, asJSON, func(ctx context.Context, at abideAt) error { return ask(ctx, &text, at) })
	if _, err := text.WriteTo(cmd.OutOrStdout()); err != nil {
		return err
	}
	return failed
}

// printAnswers prints the answer of each running abide for a path of the API: in JSON as it came, or described.
func printAnswers[T any](cmd *cobra.Command, asJSON bool, path string, describe func(T, io.Writer)) error {
	return printRunning(cmd, asJSON, func(ctx context.Context, text *bytes.Buffer, at abideAt) error {
		var answer T
		body, err := at.ask(ctx, http.MethodGet, path, nil, &answer)
		if asJSON {
			text.Write(body)
		} else if err == nil {
			describe(answer, text)
		}
		return err
	})
}
