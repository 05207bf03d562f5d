package records

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// readCSV makes an object of each row after the first, which has the names.
func readCSV(to *bytes.Buffer, body []byte) error {
	rows := csv.NewReader(bytes.NewReader(body))
	rows.ReuseRecord = true
	to.WriteByte('[')
	var names [][]byte
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("the answer is no CSV: %w", err)
		}
		if names == nil {
			if names, err = columnNames(row); err != nil {
				return err
			}
			continue
		}
		if to.Len() > 1 {
			to.WriteByte(',')
		}
		for i, value := range row {
			separator := byte(',')
			if i == 0 {
				separator = '{'
			}
			text, err := json.Marshal(value)
			if err != nil {
				return err
			}
			to.WriteByte(separator)
			to.Write(names[i])
			to.WriteByte(':')
			to.Write(text)
		}
		to.WriteByte('}')
	}
	to.WriteByte(']')
	return nil
}

func columnNames(row []string) (names [][]byte, err error) {
	seen := map[string]bool{}
	for _, name := range row {
		if seen[name] {
			return nil, fmt.Errorf("the answer is a CSV with two columns named %q", name)
		}
		seen[name] = true
		text, err := json.Marshal(name)
		if err != nil {
			return nil, err
		}
		names = append(names, text)
	}
	return names, nil
}
