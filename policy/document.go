package policy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"github.com/abide-proxy/abide/internal/lists"
)

// maxFile is about 100,000 hosts. Whatever is larger is another file.
const maxFile = 4 << 20

// Braces mean something to YAML inside of {} and [], so that
// {token: ${NAME}} would not parse. They become two characters that no text may
// have while YAML reads them, and braces again afterwards.
const (
	openBrace  = '\ufdd0'
	closeBrace = '\ufdd1'
)

var (
	variable = regexp.MustCompile(`\$\{[^\s{}\[\],"'#]*\}`)
	unbrace  = strings.NewReplacer(string(openBrace), "{", string(closeBrace), "}")
	lineOf   = regexp.MustCompile(`^(?:yaml: )?(?:line (\d+): )?(.*)$`)
	tabbed   = regexp.MustCompile(`(?m)^ *\t[ \t]*[^\s#]`) // a line whose indentation has a tab
	anchorOf = regexp.MustCompile(`^unknown anchor '(.*)' referenced$`)
)

// parseDocument reads the one document of a file, nil when it is empty. It looks
// at nothing but the syntax.
func parseDocument(data []byte) (root *yaml.Node, fault *Fault) {
	defer func() {
		// The file is not always the operator's: a reload must never end the process.
		if recover() != nil {
			root, fault = nil, &Fault{Text: "cannot be read as YAML"}
		}
	}()
	if fault := checkText(data); fault != nil {
		return nil, fault
	}
	text := bytes.TrimPrefix(data, []byte("\ufeff"))
	masked := variable.ReplaceAllFunc(text, func(found []byte) []byte {
		return []byte("$" + string(openBrace) + string(found[2:len(found)-1]) + string(closeBrace))
	})
	decoder := yaml.NewDecoder(bytes.NewReader(masked))
	var document, second yaml.Node
	if err := decoder.Decode(&document); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		return nil, syntaxFault(err, masked)
	}
	if err := decoder.Decode(&second); err == nil {
		return nil, &Fault{Line: second.Line, Text: "starts a second document; put everything into one"}
	} else if !errors.Is(err, io.EOF) {
		return nil, syntaxFault(err, masked)
	}
	if len(document.Content) != 1 {
		return nil, nil
	}
	root = document.Content[0]
	if root.Kind == yaml.ScalarNode && root.Value == "" && root.Tag == "!!null" {
		return nil, nil
	}
	if _, fault = unalias(root, map[*yaml.Node]int{}, new(int)); fault != nil {
		return nil, fault
	}
	return root, nil
}

// mostThrough bounds the values that the aliases of a file expand to.
const mostThrough = 100_000

// unalias replaces the aliases below a node by what they stand for, with the lines of the aliases. size
// counts the nodes of the outcome, sizes has those of the anchors before, and through counts what
// aliases have added.
func unalias(n *yaml.Node, sizes map[*yaml.Node]int, through *int) (size int, fault *Fault) {
	size = 1
	for i, one := range n.Content {
		more, ended := sizes[one.Alias]
		switch {
		case one.Kind != yaml.AliasNode:
			if more, fault = unalias(one, sizes, through); fault != nil {
				return 0, fault
			}
		case !ended:
			return 0, &Fault{Line: one.Line, Text: "is an alias of what it is part of"}
		default:
			real := *one.Alias
			real.Line, n.Content[i] = one.Line, &real
			if *through += more; *through > mostThrough {
				return 0, &Fault{Line: one.Line, Text: fmt.Sprintf("expands to more than %d values through its aliases", mostThrough)}
			}
		}
		size += more
	}
	if n.Anchor != "" {
		sizes[n] = size
	}
	return size, nil
}

// checkText finds what is not a text file before YAML says something obscure.
func checkText(data []byte) *Fault {
	switch {
	case len(data) > maxFile:
		return &Fault{Text: fmt.Sprintf("has %s, a configuration has at most %s", Size(len(data)), Size(maxFile))}
	case bytes.HasPrefix(data, []byte("\xff\xfe")), bytes.HasPrefix(data, []byte("\xfe\xff")),
		len(data) > 1 && (data[0] == 0) != (data[1] == 0):
		return &Fault{Line: 1, Text: "is UTF-16; save it as UTF-8"}
	}
	line := 1
	for i := 0; i < len(data); {
		r, n := rune(data[i]), 1
		if r >= utf8.RuneSelf {
			r, n = utf8.DecodeRune(data[i:])
		}
		switch {
		case r == '\n':
			line++
		case r == utf8.RuneError && n == 1:
			return &Fault{Line: line, Text: "is not UTF-8"}
		case r == 0:
			return &Fault{Line: line, Text: "has a NUL character; it is not a text file"}
		case r < ' ' && r != '\t' && r != '\r', 0x7f <= r && r < 0xa0 && r != 0x85,
			r == '\ufeff' && i > 0, 0xfdd0 <= r && r <= 0xfdef, r&0xfffe == 0xfffe:
			return &Fault{Line: line, Text: fmt.Sprintf("has the character %U, which no text has", r)}
		}
		i += n
	}
	return nil
}

// syntaxFault says what YAML says, at the line where it is, and without the
// text of the file, which may be a secret.
func syntaxFault(err error, text []byte) *Fault {
	m := lineOf.FindStringSubmatch(strings.ReplaceAll(err.Error(), "\n", " "))
	line, _ := strconv.Atoi(m[1])
	problem := m[2]
	if name := anchorOf.FindStringSubmatch(problem); name != nil {
		if at := bytes.Index(text, []byte("*"+name[1])); at >= 0 {
			line = 1 + bytes.Count(text[:at], []byte("\n"))
		}
		return &Fault{Line: max(line, 1), Text: "refers with * to an anchor that is not there; quote a value that begins with *"}
	}
	if at := tabbed.FindIndex(text); at != nil {
		return &Fault{Line: 1 + bytes.Count(text[:at[0]], []byte("\n")), Text: "is indented with a tab; YAML wants spaces"}
	}
	if strings.Contains(problem, "'") && !strings.HasPrefix(problem, "did not find") && !strings.HasPrefix(problem, "could not find") {
		problem = "is not YAML"
	}
	// The parser counts lines from 0, the scanner from 1, and neither names the first.
	parser := strings.HasPrefix(problem, "did not find expected") &&
		!strings.HasSuffix(problem, "character") && !strings.HasSuffix(problem, "line break")
	if line > 0 && parser {
		line++
	}
	line = min(line, 1+bytes.Count(bytes.TrimRight(text, "\n"), []byte("\n")))
	if strings.Contains(problem, "max depth") {
		return &Fault{Line: max(line, 1), Text: "is nested too deeply"}
	}
	line = max(line, 1)
	return &Fault{Line: line, Text: remedied(problem, strings.TrimRight(strings.Split(string(text), "\n")[line-1], "\r"))}
}

var (
	// bareStar is a pattern of hosts, or * alone, that should stand in quotes.
	bareStar = regexp.MustCompile(`(?:^|[\s\[{,])(\*(?:\.[A-Za-z0-9-]+)*(?:\.[A-Za-z0-9-]+(?::\d+)?)?)\s*(?:$|[,\]}#])`)
	// innerBrace is a brace inside of a value, such as that of /users/{id}.
	innerBrace = regexp.MustCompile(`[^\s,:\[{]\{|\{token\}`)
)

const quotedPut = `put: "Authorization: Bearer {token}"`

// remedied returns the YAML parser's complaint about a line, with a remedy if there is a
// known one. It quotes nothing of the line but a pattern of hosts: other text may be secret.
func remedied(problem, line string) string {
	text := "is not valid YAML: " + problem
	switch {
	case problem == "found unexpected end of stream":
		return text + " (is a quote not closed?)"
	case problem == "did not find expected alphabetic or numeric character":
		if m := bareStar.FindStringSubmatch(line); m != nil {
			return fmt.Sprintf("is not valid YAML: write %q in quotes", m[1])
		}
		return text + "; quote a value that begins with * or &"
	case problem == "found character that cannot start any token":
		return text + "; quote a value that begins with @, % or a backtick"
	case problem == "mapping values are not allowed in this context" && strings.Contains(line, tokenMark):
		return text + `; quote a value that has ": " in it, such as ` + quotedPut
	case problem == "mapping values are not allowed in this context":
		return text + ` (quote a value that has ": " in it)`
	case strings.HasPrefix(problem, "did not find expected ',' or") && strings.Contains(line, tokenMark):
		return text + "; quote a value that has braces in it, such as " + quotedPut
	case strings.HasPrefix(problem, "did not find expected ',' or") && innerBrace.MatchString(line):
		return text + "; quote a value that has braces in it"
	case problem == "did not find expected whitespace or line break":
		return text + "; quote a value that begins with !"
	}
	return text
}

// Fault is one thing that is wrong with a configuration.
type Fault struct {
	Source string // a file, a variable or a flag
	Line   int    // of the file, 0 elsewhere
	Key    string // dotted, such as sites[2].limits[0].per
	Text   string // what is wrong and what to write; never a secret
}

// Error is the fault as an editor can jump to it: abide.yaml:14: sites[2].host: …
func (f Fault) Error() string {
	at := f.Source + when(f.Line > 0, fmt.Sprintf(":%d", f.Line))
	return when(at != "", at+": ") + when(f.Key != "", f.Key+": ") + f.Text
}

// Faults is every fault of a configuration, in the order of the file, then of
// the environment and the command line. It is never empty.
type Faults []Fault

// Error has one fault a line.
func (f Faults) Error() string {
	return strings.Join(lists.Map(f, Fault.Error), "\n")
}
