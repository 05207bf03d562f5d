package backfill

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/abide-proxy/abide/internal/shorten"
	"github.com/abide-proxy/abide/jobs/output"
	"github.com/abide-proxy/abide/jobs/send"
	"github.com/abide-proxy/abide/policy/jobfile"
	"github.com/abide-proxy/abide/status"
)

// Try asks for the first page of the first unit, and stores nothing. It writes to w the request without the
// values of its headers, the answer, and what the job makes of it. The error says why the page is no good one.
func (b *Backfill) Try(ctx context.Context, w io.Writer) error {
	if b.options.Job.Paginate.First == jobfile.UnknownFirst { // page 0 may be none
		job := *b.options.Job
		job.Paginate.First, b.options.Job = 1, &job
	}
	c, err := &output.Claim{}, errors.New("the job has no units")
	for c.Unit, err = range b.options.Units {
		break
	}
	if err = errors.Join(err, b.prepare()); err != nil {
		return err
	}
	walk, err := b.walk(c)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%s %s\n", walk.first.Method, walk.pages.Next())
	for _, h := range b.options.Job.Request.Headers {
		fmt.Fprintf(w, "%s: (hidden)\n", h.Name)
	}
	fmt.Fprintf(w, "%s\n", shorten.To(mostOfAnswer, string(walk.first.Body)))
	a, err := b.ask(ctx, walk)
	defer a.Release()
	var f *send.Failure
	if errors.As(err, &f) {
		fmt.Fprintf(w, "%s\n%s\n", f.Text, shorten.To(mostOfAnswer, status.Line(f.Body)))
	} else if err != nil {
		return err
	} else {
		fmt.Fprintf(w, "%d, %d bytes: %s\n", a.Status, len(a.Body), shorten.To(mostOfAnswer, status.Line(string(a.Body))))
	}
	if rule, _ := b.ruleOf(a, f); rule.Then != "" {
		fmt.Fprintf(w, "\nerrors says: %s\n", rule.Then)
		return nil
	}
	next, err := walk.move(a, f)
	if next.cut != "" {
		err = errors.New("the unit would be incomplete: " + next.cut)
	}
	for _, r := range next.page.Records {
		if r.Rejected != "" && err == nil {
			err = errors.New(r.Rejected)
		}
	}
	if len(next.page.Records) > 0 {
		fmt.Fprintf(w, "\nthe first record is %s\n", status.Line(string(next.page.Records[0].Body)))
	}
	if err != nil {
		return err
	}
	follows := "no page follows"
	if u := walk.pages.Next(); u != nil {
		follows = "the next page is " + u.RequestURI()
	}
	fmt.Fprintf(w, "%s\nthe job finds %s, and %s\n", next.note, status.Number(len(next.page.Records), "record", "records"), follows)
	return nil
}
