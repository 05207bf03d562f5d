package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
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
	named := cmd.Flags().Changed(settingFlags["admin.listen"]) || cmd.Flags().Changed(settingFlags["data"]) || os.Getenv("ABIDE_ADMIN") != "" || os.Getenv("ABIDE_ADMIN_LISTEN") != ""
	return list, adminAPI{token: p.Admin.Token, unread: unread, guessed: unread != nil && !named}, err
}

// warnGuessed prints on standard error which abides are asked, where the configuration file
// cannot be read and nothing else names them. Standard output stays JSON.
func (a adminAPI) warnGuessed(cmd *cobra.Command, list []registration) {
	if !a.guessed || len(list) == 0 {
		return
	}
	at := lists.Map(list, func(r registration) string { return r.Admin })
	fmt.Fprintf(cmd.ErrOrStderr(), "the configuration file cannot be read (%v), so the abide at %s is asked\n", a.unread, strings.Join(at, ", "))
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
	from.Lookup, from.Flags = os.LookupEnv, map[string]string{}
	for _, key := range policy.AdminKeys {
		if value, ok := flagsOf(cmd.Flags())[key]; ok {
			from.Flags[key] = value
		}
	}
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

// call is callAPI with the token. Its errors say what a user can do.
func (a adminAPI) call(ctx context.Context, method, address, path string, send any, does string) ([]byte, error) {
	body, err := callAPI(ctx, method, address, a.token, path, send, does)
	return body, a.hint(err)
}

// answerOf reads the answer of the abide at address for a path of the API. known tells whether an answer is that of an abide.
func answerOf[T any](ctx context.Context, a adminAPI, address, path, does string, known func(T) bool) (answer T, body []byte, err error) {
	body, err = a.call(ctx, http.MethodGet, address, path, nil, does)
	if err == nil && (json.Unmarshal(body, &answer) != nil || !known(answer)) {
		err = notAbide(address, does)
	}
	return answer, body, err
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

// callAPI sends a request for a path of the admin API to address, until ctx is done. send is
// its body in JSON; nil: it has none. does describes the endpoint in errors: "explains". A
// problem document is returned as a *problem.
func callAPI(ctx context.Context, method, address string, token policy.Secret, path string, send any, does string) ([]byte, error) {
	var sent io.Reader
	if send != nil {
		text, err := json.Marshal(send)
		if err != nil {
			return nil, err
		}
		sent = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, withScheme(address)+"/api/v1/"+path, sent)
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w", address, err)
	}
	if send != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if !token.Empty() {
		request.Header.Set("Authorization", "Bearer "+token.Reveal())
	}
	var body []byte
	answer, err := directTransport.RoundTrip(request)
	if err == nil {
		defer answer.Body.Close()
		body, err = io.ReadAll(io.LimitReader(answer.Body, maxLive))
	}
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, fmt.Errorf("the proxy at %s does not answer in time", address)
	case err != nil:
		return nil, cmp.Or(tlsFailure(address, err), error(notRunningAt(address)))
	case answer.TLS == nil && answer.StatusCode == http.StatusBadRequest && strings.Contains(string(body), "HTTPS server"):
		return nil, fmt.Errorf("what answers at %s speaks TLS; name its certificate with --admin-ca, ABIDE_ADMIN_CA or admin.ca", address)
	}
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type")) // a Content-Type that cannot be parsed is not abide's
	switch {
	case answer.StatusCode == http.StatusOK && kind == "application/json":
		return body, nil
	case kind == "application/problem+json":
		var said struct {
			Detail string
			Faults []status.Fault
		}
		if err := json.Unmarshal(body, &said); err == nil {
			return nil, &problem{answer.StatusCode, fmt.Sprintf("the proxy at %s answers %s: %s", address, answer.Status, status.Line(said.Detail)), status.Line(said.Detail), said.Faults}
		}
	}
	return nil, notAbide(address, does)
}

// notRunning is the error where no abide runs that can be asked.
type notRunning string

func notRunningAt(address string) notRunning { return notRunning("no proxy is running at " + address) }

func (text notRunning) Error() string { return string(text) }

// problem is an error that an abide has returned. faults are those of a configuration that
// was refused.
type problem struct {
	status int
	text   string // with the address and the status
	detail string // the reason alone
	faults []status.Fault
}

func (p *problem) Error() string { return p.text }

// isAbsent tells whether an abide has no such endpoint, or nothing to say there.
func isAbsent(err error) bool {
	var none *problem
	return errors.As(err, &none) && (none.status == http.StatusNotImplemented || none.status == http.StatusNotFound)
}

func notAbide(address, does string) error {
	return fmt.Errorf("what answers at %s is no abide that %s", address, does)
}
