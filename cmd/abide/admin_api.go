package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
)

// adminAPI says how running abides are asked.
type adminAPI struct {
	token   policy.Secret
	unread  error // why the configuration file could not be read for the token and the address; nil: it was read
	guessed bool  // with unread: nothing else names the address
}

// abideAt is a running abide.
type abideAt struct {
	registration // Admin is the address of its admin listener
	adminAPI
}

// findRunning finds the running abides and the token for their API. It reads only what it
// needs of the configuration, since the file may have faults by now. The address is that of
// --admin, else of $ABIDE_ADMIN, else of the file, else the default; the token is that of
// $ABIDE_ADMIN_TOKEN, else of the file.
func findRunning(cmd *cobra.Command) ([]abideAt, adminAPI, error) {
	p, unread, err := adminSettings(cmd)
	if err != nil {
		return nil, adminAPI{}, err
	}
	list, err := running(cmd, p)
	named := cmd.Flags().Changed(flagOf("admin.listen")) || cmd.Flags().Changed(flagOf("data")) || os.Getenv("ABIDE_ADMIN") != "" || os.Getenv("ABIDE_ADMIN_LISTEN") != ""
	api := adminAPI{token: p.Admin.Token, unread: unread, guessed: unread != nil && !named}
	return lists.Map(list, func(r registration) abideAt { return abideAt{r, api} }), api, err
}

// warnGuessed prints on standard error which abides are asked, where the configuration file
// cannot be read and nothing else names them. Standard output stays JSON.
func (a adminAPI) warnGuessed(cmd *cobra.Command, list []abideAt) {
	if !a.guessed || len(list) == 0 {
		return
	}
	addresses := lists.Map(list, func(at abideAt) string { return at.Admin })
	fmt.Fprintf(cmd.ErrOrStderr(), "the configuration file cannot be read (%v), so the abide at %s is asked\n", a.unread, strings.Join(addresses, ", "))
}

// adminSettings is a policy of which only admin and data are read. unread is why the
// configuration file could not be used, nil when it could. err is about the command line or
// the environment.
func adminSettings(cmd *cobra.Command) (p *policy.Policy, unread, err error) {
	s, err := sourceOf(cmd)
	if err != nil {
		return nil, nil, err
	}
	from, unread := s.document()
	from.Lookup, from.Flags = os.LookupEnv, s.flags
	maps.DeleteFunc(from.Flags, func(key, _ string) bool { return !slices.Contains(policy.AdminKeys, key) })
	p, faults := policy.LoadAdmin(from)
	for _, one := range faults {
		if one.Source != s.name {
			return nil, nil, policy.Faults{one}
		}
		if unread == nil {
			unread = one
		}
	}
	return p, unread, trustAdmin(p)
}

// hint adds to an error what a user can do about it.
func (a adminAPI) hint(err error) error {
	var none notRunning
	var said *problem
	switch {
	case errors.As(err, &none) && a.unread != nil:
		return fmt.Errorf("%w (%w, so admin.listen may be another): --admin says where it is", err, a.unread)
	case errors.As(err, &none):
		return fmt.Errorf("%w: abide serve starts one; one that runs elsewhere is named by its admin address (--admin), or by its configuration or data directory (--config, --data); abide report says what the last one did", err)
	case errors.As(err, &said) && said.status == http.StatusUnauthorized && a.unread != nil:
		return fmt.Errorf("%w; the token cannot be read (%w), so set ABIDE_ADMIN_TOKEN to it", err, a.unread)
	case errors.As(err, &said) && said.status == http.StatusUnauthorized:
		return fmt.Errorf("%w; set ABIDE_ADMIN_TOKEN, or the file of ABIDE_ADMIN_TOKEN_FILE, to the token of the abide that runs there; if that file was changed since, kill -HUP that abide, or start it again", err)
	}
	return err
}

const (
	// liveTimeout bounds a request to the admin API: a running process may be busy, or have
	// a long queue to describe.
	liveTimeout = 5 * time.Second
	// maxLive bounds an answer of the admin API, in bytes.
	maxLive = 4 << 20
	// reloadPatience is for a reload, which may wait for a lookup of secrets.
	reloadPatience = 30 * time.Second
)

// ask sends a request for a path of the API, until ctx is done. send is its body in JSON; nil: it has none. The answer is read
// into to, and returned as it came. One that says nothing of what to holds, but for null, is that of another program. A problem
// document is returned as a *problem.
func (a abideAt) ask(ctx context.Context, method, path string, send, to any) (body []byte, err error) {
	var sent []byte
	if send != nil {
		if sent, err = json.Marshal(send); err != nil {
			return nil, err
		}
	}
	answer, body, err := roundTrip(ctx, method, a.Admin, "/api/v1/"+path, a.token, sent)
	if err != nil {
		return nil, err
	}
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type")) // a Content-Type that cannot be parsed is not abide's
	switch {
	case answer.StatusCode == http.StatusOK && kind == "application/json":
		if json.Unmarshal(body, to) == nil && (!reflect.ValueOf(to).Elem().IsZero() || string(bytes.TrimSpace(body)) == "null") {
			return body, nil
		}
	case kind == "application/problem+json":
		refused := &problem{status: answer.StatusCode}
		if json.Unmarshal(body, refused) == nil {
			refused.Detail = status.Line(refused.Detail)
			refused.text = fmt.Sprintf("the proxy at %s answers %s: %s", a.Admin, answer.Status, refused.Detail)
			return nil, refused
		}
	case answer.TLS == nil && answer.StatusCode == http.StatusBadRequest && strings.Contains(string(body), "HTTPS server"):
		return nil, fmt.Errorf("what answers at %s speaks TLS; name its certificate with --admin-ca, ABIDE_ADMIN_CA or admin.ca", a.Admin)
	}
	path, _, _ = strings.Cut(path, "?")
	return nil, fmt.Errorf("what answers at %s is no abide that knows /api/v1/%s", a.Admin, path)
}

// Get reads the answer for a path of the API. An abide that has no such path, or nothing to say there, leaves to as it is.
func (a abideAt) Get(ctx context.Context, path string, to any) error {
	if _, err := a.ask(ctx, http.MethodGet, path, nil, to); !isAbsent(err) {
		return err
	}
	return nil
}

// Change has an abide do something with a site.
func (a abideAt) Change(ctx context.Context, site, what string, ask any) error {
	_, err := a.ask(ctx, http.MethodPost, sitePath(site, what), ask, new(status.SitePause))
	return err
}

// roundTrip sends a request to an admin listener, and reads the answer.
func roundTrip(ctx context.Context, method, address, path string, token policy.Secret, send []byte) (answer *http.Response, body []byte, err error) {
	to := address + path
	if !strings.HasPrefix(address, secure) {
		to = "http://" + to
	}
	request, err := http.NewRequestWithContext(ctx, method, to, bytes.NewReader(send))
	if err != nil {
		return nil, nil, fmt.Errorf("asking %s: %w", address, err)
	}
	if send != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if !token.Empty() {
		request.Header.Set("Authorization", "Bearer "+token.Reveal())
	}
	if answer, err = directTransport.RoundTrip(request); err == nil {
		defer answer.Body.Close()
		body, err = io.ReadAll(io.LimitReader(answer.Body, maxLive))
	}
	var untrusted *tls.CertificateVerificationError
	var plain tls.RecordHeaderError
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		err = fmt.Errorf("the proxy at %s does not answer in time", address)
	case errors.As(err, &untrusted):
		err = fmt.Errorf("the certificate at %s is not trusted: %w; --admin-ca, ABIDE_ADMIN_CA or admin.ca names a file with those that are", address, untrusted.Err)
	case errors.As(err, &plain):
		err = fmt.Errorf("what answers at %s speaks no TLS; leave out --admin-ca, admin.ca and admin.cert", address)
	case err != nil:
		err = notRunning("no proxy is running at " + address)
	}
	return answer, body, err
}

// notRunning is the error where no abide runs that can be asked.
type notRunning string

func (text notRunning) Error() string { return string(text) }

// problem is an error that an abide has returned. Faults are those of a configuration that
// was refused.
type problem struct {
	Detail string // the reason alone
	Faults []status.Fault
	status int
	text   string // with the address and the status
}

func (p *problem) Error() string { return p.text }

// isAbsent tells whether an abide has no such endpoint, or nothing to say there.
func isAbsent(err error) bool {
	var none *problem
	return errors.As(err, &none) && (none.status == http.StatusNotImplemented || none.status == http.StatusNotFound)
}
