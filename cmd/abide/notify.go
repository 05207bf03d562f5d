package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/abide-proxy/abide/policy/jobfile"
)

// notifyTime bounds the time for which a job tells how it has ended.
const notifyTime = 30 * time.Second

// notified tells what a job names under notify how the job has ended, and returns the result, which a failure of that
// does not change. lost says which records are not in the table although all units may be done; it is told, too.
func notified(cmd *cobra.Command, job *jobfile.Job, lost string, result error) error {
	to, told := job.Notify, struct {
		Job    string    `json:"job"`
		Failed bool      `json:"failed"`
		Text   string    `json:"text"` // which chat programs show
		At     time.Time `json:"at"`
	}{job.Name, result != nil, job.Name + " is done", time.Now().UTC()}
	if result != nil {
		told.Text = job.Name + ": " + result.Error()
	}
	if lost != "" {
		told.Text += ", and " + lost
	}
	if len(to.Command) == 0 && to.URL.Empty() || result == nil && lost == "" && !to.Always {
		return result
	}
	text, _ := json.Marshal(told) // it has texts alone
	ctx, cancel := context.WithTimeout(context.WithoutCancel(cmd.Context()), notifyTime)
	defer cancel()
	var err error
	if len(to.Command) > 0 {
		program := exec.CommandContext(ctx, to.Command[0], to.Command[1:]...)
		program.Stdin, program.Stdout, program.Stderr = bytes.NewReader(text), cmd.ErrOrStderr(), cmd.ErrOrStderr()
		// What any program may need. Other variables may be secrets of the job.
		for _, name := range []string{"PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "TMPDIR", "USERPROFILE", "APPDATA", "TEMP", "PATHEXT"} {
			if value, set := os.LookupEnv(name); set {
				program.Env = append(program.Env, name+"="+value)
			}
		}
		program.Env = append(program.Env, "JOB_NAME="+told.Job, "JOB_FAILED="+strconv.FormatBool(told.Failed), "JOB_TEXT="+told.Text, "JOB_OUTPUT="+job.Output.String())
		err = program.Run()
	} else {
		err = post(ctx, clientOfCommand(cmd), to.URL.Reveal(), text)
	}
	if err != nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "abide: notify failed: %v\n", err)
	}
	return result
}

// clientOfCommand sends what is no request of a job. It trusts the CAs that a job trusts, as $HTTPS_PROXY may name an
// abide; those of the system, if the configuration cannot be read.
func clientOfCommand(cmd *cobra.Command) *http.Client {
	var roots *x509.CertPool
	if p, err := loadPolicy(cmd); err == nil {
		roots = rootsOfJob(p)
	}
	return &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true}}
}

// post sends a document. The error does not have the URL, which may be a secret.
func post(ctx context.Context, client *http.Client, to string, text []byte) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(text))
	if err != nil {
		return errors.New("the URL cannot be read")
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(r)
	if err != nil {
		return errors.Unwrap(err) // of a *url.Error, as each error of Do
	}
	defer resp.Body.Close()
	if resp.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("the answer is %s", resp.Status)
	}
	return nil
}
