package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/abide-proxy/abide/policy"
)

// adminAPI asks running abides by their admin listeners.
type adminAPI struct {
	token   policy.Secret
	unread  error // why the configuration file was not read for the token and the address; nil when it was
	guessed bool  // whether, with unread, nothing else says the address
}

// findRunning finds the abides that run, and how they are asked. It reads no more of the
// configuration than that takes, since the file may have been broken after an abide was
// started: the address is that of --admin, else of $ABIDE_ADMIN, else of the file, else
// the default; the token is that of $ABIDE_ADMIN_TOKEN, else of the file.
func findRunning(cmd *cobra.Command) ([]registration, adminAPI, error) {
	p, unread, err := adminSettings(cmd)
	if err != nil {
		return nil, adminAPI{}, err
	}
	list, err := running(cmd, p)
	return list, adminAPI{token: p.Admin.Token, unread: unread, guessed: unread != nil && !saysAddress(cmd)}, err
}

// saysAddress tells whether the command line or the environment says where abide is.
func saysAddress(cmd *cobra.Command) bool {
	f := cmd.Flags().Lookup(flagged["admin.listen"])
	return f != nil && f.Changed || os.Getenv("ABIDE_ADMIN") != "" || os.Getenv("ABIDE_ADMIN_LISTEN") != ""
}

// tellGuess says on standard error which abides are asked because the configuration file
// does not say which. JSON on standard output stays as it is.
func (a adminAPI) tellGuess(cmd *cobra.Command, list []registration) {
	if !a.guessed || len(list) == 0 {
		return
	}
	var at []string
	for _, one := range list {
		at = append(at, one.Admin)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "the configuration file cannot be read (%v), so the abide at %s is asked\n", a.unread, strings.Join(at, ", "))
}

// adminSettings is a policy of which admin and data alone are read, and why the
// configuration file was of no use for it, nil when it was. The error is one of the
// command line or of the environment.
func adminSettings(cmd *cobra.Command) (p *policy.Policy, unread, err error) {
	from := policy.Source{Data: []byte{}, Lookup: os.LookupEnv, Flags: map[string]string{}}
	for _, key := range policy.AdminKeys {
		if value, ok := flagsOf(cmd.Flags())[key]; ok {
			from.Flags[key] = value
		}
	}
	s, err := sourceOf(cmd)
	if err != nil {
		return nil, nil, err
	}
	if s.path != "" {
		from.Path = s.path
		if from.Data, err = s.file(); err != nil {
			from.Data, unread = []byte{}, err
		}
	}
	p, faults := policy.LoadAdmin(from)
	for _, one := range faults {
		if one.Source != s.path {
			return nil, nil, policy.Faults{one}
		}
		if unread == nil {
			unread = one
		}
	}
	return p, unread, nil
}

// get asks the abide whose admin listener is at address for a path of its API. Does says
// in an error what an abide has that answers: "tells its status".
func (a adminAPI) get(ctx context.Context, address, path, does string) ([]byte, error) {
	body, err := callAPI(ctx, http.MethodGet, address, a.token, path, does)
	return body, a.hint(err)
}

// post asks it to do what a path of its API does.
func (a adminAPI) post(ctx context.Context, address, path, does string) ([]byte, error) {
	body, err := callAPI(ctx, http.MethodPost, address, a.token, path, does)
	return body, a.hint(err)
}

// hint adds to an error of asking what a user can do about it.
func (a adminAPI) hint(err error) error {
	var none noProxy
	var said *problem
	switch {
	case errors.As(err, &none) && a.unread != nil:
		return fmt.Errorf("%w (%w, so admin.listen may be another): --admin says where it is", err, a.unread)
	case errors.As(err, &none):
		return fmt.Errorf("%w: abide serve starts one, and --admin or admin.listen says where another is", err)
	case errors.As(err, &said) && said.status == http.StatusUnauthorized && a.unread != nil:
		return fmt.Errorf("%w; the token cannot be read (%w), so set ABIDE_ADMIN_TOKEN to it", err, a.unread)
	case errors.As(err, &said) && said.status == http.StatusUnauthorized:
		return fmt.Errorf("%w; set ABIDE_ADMIN_TOKEN to the token of the abide that runs there", err)
	}
	return err
}
