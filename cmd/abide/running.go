package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/abide-proxy/abide/policy"
)

// running are the abides that a command such as "abide status" asks: the one at --admin if
// that is given, else the one at admin.listen and all that are registered in the data
// directory. Without a running abide it is admin.listen alone, so that the error names the
// address. Each has an address in Admin.
func running(cmd *cobra.Command, p *policy.Policy) ([]registration, error) {
	address := ""
	if p.Admin.Listen != "" {
		var err error
		if address, err = localAddress(p.Admin.Listen); err != nil {
			return nil, err
		}
	}
	if f := cmd.Flags().Lookup(settingFlags["admin.listen"]); f != nil && f.Changed && address != "" {
		return []registration{{Admin: address}}, nil
	}
	var list []registration
	for _, one := range registrations(p.Data) {
		if at, err := localAddress(one.Admin); err == nil {
			one.Admin = at
			list = append(list, one)
		}
	}
	if address != "" {
		if remote := listeningAddress(cmd.Context(), address); remote != "" && !has(list, remote) {
			list = append([]registration{{Admin: address}}, list...)
		}
	}
	switch {
	case len(list) > 0:
		return list, nil
	case address != "":
		return []registration{{Admin: address}}, nil
	}
	return nil, errors.New("admin.listen is off, and no abide is registered in " + registrationsOf(p) + ", so no abide can be asked")
}

// registrationsOf is the directory of registrations, for an error.
func registrationsOf(p *policy.Policy) string {
	if p.Data == "none" {
		return "a data directory (data: none)"
	}
	return filepath.Join(p.Data, registrationDir)
}

func has(list []registration, address string) bool {
	for _, one := range list {
		if one.Admin == address {
			return true
		}
	}
	return false
}

// listeningAddress is the resolved address at which connections are accepted, "" without a
// listener.
func listeningAddress(ctx context.Context, address string) string {
	dialer := net.Dialer{Timeout: time.Second}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return ""
	}
	defer conn.Close()
	return conn.RemoteAddr().String()
}

// describeRunning lists the abides that are asked, if there are several.
func describeRunning(w io.Writer, list []registration) {
	if len(list) < 2 {
		return
	}
	fmt.Fprintf(w, "%d abides are running; --admin ADDRESS asks one of them\n\n", len(list))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "COMMAND\tPID\tPROXY\tADMIN\tSINCE")
	for _, one := range list {
		if one.PID == 0 {
			fmt.Fprintf(t, "not registered in this data directory\t-\t-\t%s\t-\n", one.Admin)
			continue
		}
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\n", printable(one.Command), one.PID, printable(one.Proxy), one.Admin, one.Started.Format(time.RFC3339))
	}
	t.Flush()
}

// askRunning asks each running abide, within liveTimeout each. The output in text has titles
// where needed, unless it is JSON. It tells whether any abide has answered, and joins the
// errors of the others.
func askRunning(cmd *cobra.Command, text *bytes.Buffer, asJSON bool, ask func(ctx context.Context, address string, api adminAPI) error) (answered bool, failed error) {
	list, api, err := findRunning(cmd)
	if err != nil {
		return false, err
	}
	api.warnGuessed(cmd, list)
	if !asJSON {
		describeRunning(text, list)
	}
	for _, one := range list {
		if !asJSON && one.needsTitle(list) {
			if text.Len() > 0 {
				text.WriteString("\n")
			}
			fmt.Fprintf(text, "%s\n", one.title())
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), liveTimeout)
		err := ask(ctx, one.Admin, api)
		cancel()
		failed, answered = errors.Join(failed, err), answered || err == nil
	}
	return answered, failed
}

// needsTitle tells whether the output about an abide must name it: it is one of several, or
// a run, whose admin listener no configuration names.
func (r registration) needsTitle(list []registration) bool {
	return len(list) > 1 || r.PID != 0 && r.Command != "serve"
}

// title names an abide.
func (r registration) title() string {
	if r.PID == 0 {
		return "the abide at " + r.Admin
	}
	return fmt.Sprintf("abide %s, process %d, admin %s", printable(r.Command), r.PID, r.Admin)
}
