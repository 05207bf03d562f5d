package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/abide-proxy/abide/proxy/ca"
)

// browserSteps returns the steps that make the user's browsers trust the root in file, or no longer
// trust it where file is "". Under sudo the user is the one who called it. asked says that the operator
// asked for browsers alone, so that a missing certutil is an error; otherwise hint says how to get it.
func browserSteps(file string, asked bool) (steps []ca.Step, hint string, err error) {
	if asked && runtime.GOOS != "linux" {
		return nil, "", errors.New("browsers use this machine's trust store here: abide ca install without --browsers")
	}
	home, err := os.UserHomeDir()
	var before []string
	if name := os.Getenv("SUDO_USER"); name != "" && name != "root" && os.Geteuid() == 0 {
		if caller, unknown := user.Lookup(name); unknown == nil {
			home, before, err = caller.HomeDir, []string{"sudo", "-u", name}, nil
		}
	}
	if err != nil {
		return nil, "", err
	}
	stores, chromium := ca.BrowserStores(home)
	if usual := ca.ChromiumStore(home); file != "" && (asked || chromium) && !slices.Contains(stores, usual) {
		stores = append(stores, usual)
	}
	_, missing := exec.LookPath("certutil")
	switch {
	case len(stores) == 0:
		return nil, "", nil
	case missing == nil:
		return ca.TrustInBrowsers(stores, before, file), "", nil
	case asked:
		return nil, "", errors.New(ca.CertutilMissing)
	}
	return nil, ca.CertutilMissing, nil
}

// homePrefix begins the name of a directory that browserHome makes.
const homePrefix = ".abide-run-"

// browserHome makes a home directory in which Chromium trusts a root, in PEM: it has links to all
// that is in the user's home, and a copy of Chromium's store of certificates. Chromium finds that store
// by HOME alone. end moves what a command has made in the directory to the user's home, and removes the
// directory.
func browserHome(ctx context.Context, root []byte) (dir string, end func() error, err error) {
	if _, err := exec.LookPath("certutil"); err != nil {
		return "", nil, errors.New(ca.CertutilMissing)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", nil, err
	}
	if dir, err = os.MkdirTemp(home, homePrefix); err != nil {
		return "", nil, fmt.Errorf("making a home directory for the command: %w", err)
	}
	end = func() error {
		entries, err := os.ReadDir(dir)
		for _, one := range entries {
			from, to := filepath.Join(dir, one.Name()), filepath.Join(home, one.Name())
			if link, _ := os.Readlink(from); link != to && one.Name() != ".pki" {
				err = errors.Join(err, os.Rename(from, to))
			}
		}
		if err != nil {
			return fmt.Errorf("what the command wrote into its home directory stays in %s: %w", dir, err)
		}
		return os.RemoveAll(dir)
	}
	store := ca.ChromiumStore(dir)
	file := filepath.Join(dir, ".pki", "abide.pem")
	err = errors.Join(
		os.MkdirAll(store, 0o700), linkAll(home, dir), linkAll(filepath.Dir(ca.ChromiumStore(home)), filepath.Dir(store)),
		existing(os.CopyFS(store, os.DirFS(ca.ChromiumStore(home)))), os.WriteFile(file, root, 0o600),
	)
	for _, one := range ca.TrustInBrowsers([]string{store}, nil, file) {
		if err == nil {
			err = runStep(ctx, io.Discard, io.Discard, one)
		}
	}
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("making a home directory for the command: %w", err), end())
	}
	return dir, end, nil
}

// linkAll makes links in the directory to for what is in another directory and not there yet.
func linkAll(from, to string) error {
	entries, err := os.ReadDir(from)
	for _, one := range entries {
		if strings.HasPrefix(one.Name(), homePrefix) {
			continue
		}
		if failed := os.Symlink(filepath.Join(from, one.Name()), filepath.Join(to, one.Name())); !errors.Is(failed, fs.ErrExist) {
			err = errors.Join(err, failed)
		}
	}
	return existing(err)
}

// existing is err, or nil if it says that a file does not exist.
func existing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
