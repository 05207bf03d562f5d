package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/abide-proxy/abide/policy"
)

func reloadCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "reload",
		Short: "Have the running proxy read its configuration again",
		Long: `Reload asks the running proxy to read its configuration file again, and prints
what has changed. Where the file has faults, it prints each with its file and
line and ends with 2; the proxy goes on with the last good configuration. It
ends with 1 when no proxy runs. It finds the proxy as abide status does; those
of "abide run" do not read their configuration again. A file of --config or
$ABIDE_CONFIG that cannot be read says no address, so --admin has to.

The proxy also reads the file when it changes, and on SIGHUP.`,
		Example: `  abide reload
  abide reload --admin 127.0.0.1:9128`,
		Args: arguments(cobra.NoArgs),
		RunE: askReload,
	}
}

func askReload(cmd *cobra.Command, _ []string) error {
	list, api, err := findRunning(cmd)
	if err != nil {
		return err
	}
	if api.guessed && namesFile(cmd) {
		return usage(fmt.Errorf("nothing was reloaded: %w, so the address of its abide is not known; mend the file, or say the address with --admin", api.unread))
	}
	api.warnGuessed(cmd, list)
	asked := false
	for _, one := range list {
		if one.PID != 0 && one.Command != "serve" {
			continue
		}
		asked = true
		failed := reloadOne(cmd, one, api)
		if err == nil {
			err = failed // without a prefix, as faults are printed
		} else {
			err = errors.Join(err, failed)
		}
	}
	if !asked {
		return errors.New("only proxies of abide run are running, which do not read their configuration again")
	}
	return err
}

// reloadOne reloads one abide and prints the result.
func reloadOne(cmd *cobra.Command, item registration, api adminAPI) error {
	address := item.Admin
	ctx, cancel := context.WithTimeout(cmd.Context(), reloadPatience)
	defer cancel()
	const does = "reloads its configuration"
	body, err := api.post(ctx, address, "reload", nil, does)
	var refused *problem
	if errors.As(err, &refused) && refused.status == http.StatusUnprocessableEntity {
		text := fmt.Sprintf("the proxy at %s did not reload and keeps its last good configuration:", address)
		if len(refused.faults) == 0 {
			return usage(errors.New(text + " " + strings.TrimPrefix(refused.detail, reloadRefused)))
		}
		fmt.Fprintln(cmd.ErrOrStderr(), text)
		return faultsOf(refused)
	}
	if err != nil {
		return err
	}
	var said struct {
		Reloaded bool
		Changes  []string
	}
	if json.Unmarshal(body, &said) != nil || !said.Reloaded {
		return notAbide(address, does)
	}
	out := cmd.OutOrStdout()
	if _, err := fmt.Fprintln(out, item.title()+":"); err != nil {
		return err
	}
	if len(said.Changes) == 0 {
		_, err = fmt.Fprintln(out, "reloaded: nothing has changed")
		return err
	}
	for _, change := range said.Changes {
		if _, err := fmt.Fprintln(out, "reloaded:", printable(change)); err != nil {
			return err
		}
	}
	return nil
}

// faultsOf are the faults for which a reload was refused.
func faultsOf(refused *problem) policy.Faults {
	var faults policy.Faults
	for _, one := range refused.faults {
		faults = append(faults, policy.Fault{Source: printable(one.File), Line: one.Line, Key: printable(one.Key), Text: printable(one.Text)})
	}
	return faults
}
