package jobstest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/abide-proxy/abide/policy/jobfile"
)

// body is the body of an answer.
type body struct {
	Data  []record `json:"data"`
	Next  *string  `json:"next"`
	More  *bool    `json:"more,omitempty"`
	Total *int     `json:"total,omitempty"`
}

type record struct {
	ID   string `json:"id"`
	Unit string `json:"unit"`
	N    int    `json:"n"`
}

// page is the answer about the records from a position on.
func (o *Origin) page(host, unit string, from int) (http.Header, []byte) {
	size, n, end := o.options.Size, o.options.Records, o.options.End
	counted := o.options.Style == jobfile.OffsetPages || o.options.Style == jobfile.PagePages
	vanished, begin, hole := 0, from, 0
	switch {
	case end == Shrinks && from > 0:
		vanished = min(size/2, n)
	case end == EmptyMiddle && n > size:
		hole = size // from size on
	case end == Repeats && counted:
		begin = 0
	}
	b := body{Data: []record{}}
	for i := begin; i < begin+size; i++ {
		at := i + vanished
		if hole > 0 && i >= size {
			at -= hole
		}
		if at < n && (hole == 0 || i < size || i >= size+hole) {
			b.Data = append(b.Data, record{fmt.Sprintf("%s-%d", unit, at), unit, at})
		}
	}
	header := http.Header{}
	more := from+size < n+hole-vanished
	if o.total() {
		total := n - vanished
		switch end {
		case TotalTooHigh:
			total += size
		case TotalTooLow:
			total = min(n, size)
		}
		b.Total = &total
	}
	if counted && end == EmptyMiddle {
		b.More = &more
	}
	if more && !counted {
		next := from + size
		if end == Repeats && from > 0 {
			next = from
		}
		o.lead(&b, header, host, unit, next)
	}
	text, err := json.Marshal(b)
	if err != nil {
		panic(err) // it has texts and numbers alone
	}
	return header, text
}

// lead makes an answer lead to the next page.
func (o *Origin) lead(b *body, h http.Header, host, unit string, next int) {
	query := url.Values{"unit": {unit}, "from": {strconv.Itoa(next)}}
	path := "/records?" + query.Encode()
	if o.options.End == OtherHost {
		path = o.options.Elsewhere + path
	}
	switch o.options.Style {
	case jobfile.CursorPages:
		cursor := fmt.Sprintf("behind %d+&=", next)
		if o.options.Header != "" {
			h.Set(o.options.Header, cursor)
			break
		}
		b.Next = &cursor
	case jobfile.LinkPages:
		if o.options.End != OtherHost {
			path = "http://" + host + path
		}
		h.Add("Link", `</records>; rel="first"; title="a, \"b\"; rel=next"`)
		h.Add("Link", `</>; rel=prev, <`+path+`>; rel="last next"`)
	case jobfile.NextPages:
		b.Next = &path
	}
}
