package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// registrationDir is the directory, in the data directory, where each running abide
// has a file named after its process ID.
const registrationDir = "run"

// Bounds of reading registrations.
const (
	maxRegistrations    = 1000
	maxRegistrationSize = 64 << 10 // bytes
)

// registration says how to reach a running abide. Commands such as "abide status"
// read it, so that they find an abide whose ports nobody chose.
type registration struct {
	PID     int       `json:"pid"`
	Command string    `json:"command"` // "serve", or "run" and the program's name, without arguments: these may hold secrets
	Proxy   string    `json:"proxy"`   // address of the proxy
	Admin   string    `json:"admin"`   // address of the admin listener, "" without one
	Started time.Time `json:"started"`
}

// registered is this process's own registration.
type registered struct {
	path string
	file *os.File
}

// register writes the registration of this process into a data directory. The file
// stays locked while the process lives, which is how others know that it does: a
// process ID may belong to another process by then, or to another container.
func register(data string, r registration) (*registered, error) {
	dir := filepath.Join(data, registrationDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	// The file gets its name when it is locked and complete: a reader may take one
	// that is not locked for one that is left over, and remove it. The name has a
	// random part, because two containers may have the same process ID.
	f, err := os.CreateTemp(dir, strconv.Itoa(r.PID)+"-*"+unfinished) // with mode 0600
	if err != nil {
		return nil, err
	}
	own := &registered{path: strings.TrimSuffix(f.Name(), unfinished) + ".json", file: f}
	err = lockRegistration(f)
	if err == nil {
		_, err = f.Write(append(text, '\n'))
	}
	if err == nil {
		err = os.Rename(f.Name(), own.path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		f.Close()
		return nil, err
	}
	return own, nil
}

// unfinished is how the name of a registration ends that is being written.
const unfinished = ".new"

// remove ends a registration. It may be called on nil.
func (r *registered) remove() {
	if r == nil {
		return
	}
	_ = os.Remove(r.path) // who finds it afterwards sees that it is not locked
	r.file.Close()
}

// registrations are those of the abides that run with a data directory, by start.
// It removes those that processes have left behind which ended without notice.
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
			if r, err := readRegistration(path); err == nil {
				list = append(list, r)
			}
		case strings.HasSuffix(path, unfinished):
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

var errNotRunning = errors.New("the process has ended")

func readRegistration(path string) (r registration, err error) {
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
		return r, cmp.Or(err, fs.ErrInvalid) // to open a pipe could wait for ever
	}
	f, err := os.Open(path)
	if err != nil {
		return r, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxRegistrationSize))
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(text, &r); err != nil || r.PID <= 0 {
		return r, fmt.Errorf("%s: %w", path, cmp.Or(err, fs.ErrInvalid))
	}
	if !registrationLocked(f, r.PID) {
		_ = os.Remove(path)
		return r, errNotRunning
	}
	return r, nil
}

// register makes this abide known to other commands with the same data directory.
// What it returns ends that.
func (a *program) register(command string) (end func()) {
	p := a.policy.Load()
	if p.Data == "none" {
		return func() {}
	}
	r := registration{PID: os.Getpid(), Command: command, Proxy: a.listener.Addr().String(), Started: time.Now().UTC().Truncate(time.Millisecond)}
	if a.admin != nil {
		r.Admin = a.admin.Addr().String()
	}
	own, err := register(p.Data, r)
	if err != nil {
		a.log.Warnf("abide status and abide explain find this process only by --admin: %v", err)
	}
	return func() { own.remove() }
}
