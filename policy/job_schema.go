package policy

import "encoding/json"

// node is a part of a JSON Schema.
type node map[string]any

func textNode(doc string) node { return node{"type": "string", "description": doc} }

func countNode(least int, doc string) node {
	return node{"type": "integer", "minimum": least, "description": doc}
}

func wordNode(doc string, words ...string) node {
	return node{"type": "string", "enum": words, "description": doc}
}

func objectNode(doc string, needed []string, keys node) node {
	n := node{"type": "object", "description": doc, "properties": keys, "additionalProperties": false}
	if len(needed) > 0 {
		n["required"] = needed
	}
	return n
}

func anyNode(doc string, of ...node) node { return node{"description": doc, "anyOf": of} }

func listNode(of node) node { return node{"type": "array", "items": of, "minItems": 1} }

// JobSchema is the JSON Schema of a job file. If you add a key to LoadJob, also add it here.
func JobSchema() []byte {
	text := node{"type": "string"}
	date := node{"type": "string", "description": "2025-01-31, 2025-01 or 2025-01-31T15:00"}
	s := objectNode("A job of abide: see docs/jobs.md.", []string{"name", "request"}, node{
		"name": textNode("Of the job and its table: letters, digits, - and _."),
		"request": anyNode("What is asked for each unit. {date}, {from}, {to} and {item} are replaced.", text, objectNode("", []string{"url"}, node{
			"url": text, "method": wordNode("GET if it is left out.", "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "QUERY"),
			"headers": node{"type": "object", "additionalProperties": text}, "body": text,
			"idempotency": node{"description": "Send an Idempotency-Key for each unit.", "enum": []any{true, false, "on", "off"}},
			"priority":    countNode(0, "0, the most urgent, to 7."),
		})),
		"range": objectNode("Each step is a unit.", []string{"from", "to"}, node{
			"from": date, "to": date, "step": textNode("1h, 1d, 1w, 1mo or 1y."), "timezone": textNode("Such as Europe/Berlin."),
		}),
		"items": anyNode("Each item is a unit.", textNode("A file with a line for each item."), listNode(node{"type": []string{"string", "number"}}), objectNode("", nil, node{
			"file": text, "csv": text, "column": text, "job": textNode("The output of another job."), "name": text, "query": textNode("A SELECT with one column."),
		})),
		"paginate": anyNode("How an answer leads to the next page.",
			wordNode("", "none", AutoPages, OffsetPages, PagePages, LinkPages),
			objectNode("", []string{"style"}, node{
				"style": wordNode("", "none", AutoPages, OffsetPages, PagePages, CursorPages, LinkPages, NextPages),
				"param": text, "size": countNode(1, "Records of a full page."), "size_param": text, "first": countNode(0, "The first number or offset."),
				"next": textNode("Path of the cursor or the URL."), "header": textNode("The header that has the cursor."),
				"more": textNode("Path of a true or false."), "total": textNode("Path of the number of all records."), "max_pages": countNode(1, ""),
			})),
		"records": textNode("Path of the records in the body."),
		"id":      anyNode("What identifies a record.", text, listNode(text)),
		"columns": anyNode("Parts of the record with a column of their own.", node{"type": "object", "additionalProperties": text}, listNode(text)),
		"workers": countNode(1, "Requests at one time."),
		"tries":   countNode(1, "How often a page is asked for before its unit fails."),
		"output":  textNode("A SQLite file or postgres://…"),
		"every":   textNode("The interval of a collection, such as 30s."),
		"batch": objectNode("Several items in one request.", []string{"param"}, node{
			"param": text, "size": countNode(2, ""), "join": text,
		}),
		"store":  wordNode("", "changes", "all"),
		"keep":   textNode("How long records are kept, such as 30d."),
		"memory": textNode("Of what is not written yet, such as 64MiB."),
		"priority": listNode(objectNode("", []string{"items", "priority"}, node{
			"items": textNode("A pattern with *."), "priority": countNode(0, ""),
		})),
	})
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	written, _ := json.MarshalIndent(s, "", "  ") // texts and numbers have no error
	return append(written, '\n')
}
