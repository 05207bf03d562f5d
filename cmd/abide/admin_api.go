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

// adminAPI is the admin API of running abides.
type adminAPI struct {
	token   policy.Secret
	unread  error // why the configuration file could not be read for the token and the address; nil: it was read
	guessed bool  // with unread: nothing else names the address
}

// findRunning finds the running abides and the token for their API. It reads only what it
// needs of the configuration, since the file may have faults by now. The address is that of
// --admin, else of $ABIDE_ADMIN, else of the file, else the default; the token is that of
// $ABIDE_ADMIN_TOKEN, else of the file.
func findRunning(cmd *cobra.Command) ([]registration, adminAPI, error) {
	p, unread, err := adminSettings(cmd)
	if err != nil {
		return nil, adminAPI{}, err
	}
	list, err := running(cmd, p)
	return list, adminAPI{token: p.Admin.Token, unread: unread, guessed: unread != nil && !namesAddress(cmd)}, err
}

// namesAddress tells whether the command line or the environment names the admin address.
func namesAddress(cmd *cobra.Command) bool {
	f := cmd.Flags().Lookup(settingFlags["admin.listen"])
	return f != nil && f.Changed || os.Getenv("ABIDE_ADMIN") != "" || os.Getenv("ABIDE_ADMIN_LISTEN") != ""
}

// warnGuessed prints on standard error which abides are asked, where the configuration file
// cannot be read and nothing else names them. Standard output stays JSON.
func (a adminAPI) warnGuessed(cmd *cobra.Command, list []registration) {
	if !a.guessed || len(list) == 0 {
		return
	}
	var at []string
	for _, one := range list {
		at = append(at, one.Admin)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "the configuration file cannot be read (%v), so the abide at %s is asked\n", a.unread, strings.Join(at, ", "))
}

// adminSettings is a policy of which only admin and data are read. unread is why the
// configuration file could not be used, nil when it could. err is about the command line or
// the environment.
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

// get sends a GET for a path of the API to the abide whose admin listener is at address.
// does describes the endpoint in errors: "tells its status".
func (a adminAPI) get(ctx context.Context, address, path, does string) ([]byte, error) {
	body, err := callAPI(ctx, http.MethodGet, address, a.token, path, nil, does)
	return body, a.hint(err)
}

// post sends a POST for a path of the API. send is its body in JSON; nil: it has none.
func (a adminAPI) post(ctx context.Context, address, path string, send any, does string) ([]byte, error) {
	body, err := callAPI(ctx, http.MethodPost, address, a.token, path, send, does)
	return body, a.hint(err)
}

// hint adds to an error what a user can do about it.
func (a adminAPI) hint(err error) error {
	var none notRunning
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
