package partition

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"weft/internal/atomicfile"
	"weft/internal/memory"
	"weft/internal/refusal"
	"weft/internal/regular"
)

// WriteFile writes the assignment in the format of METIS, KaHIP and Mt-KaHyPar: the partition of each vertex
// on a line of its own, in the order of the vertices. By custom the name ends in .part.K. The file appears
// under its name only when it is complete.
func WriteFile(path string, a *Assignment) error {
	return atomicfile.Write(path, func(f io.Writer) error {
		w := bufio.NewWriter(f)
		var line []byte
		for _, p := range a.Parts {
			line = append(strconv.AppendInt(line[:0], int64(p), 10), '\n')
			if _, err := w.Write(line); err != nil {
				return err
			}
		}
		return w.Flush()
	})
}

// readFile reads the format of WriteFile, for a graph of the given number of vertices in k partitions.
func readFile(path string, vertices, k int) ([]int32, error) {
	f, _, err := regular.Open(path)
	if err != nil {
		return nil, refusal.Errorf("--file: %w", err)
	}
	defer f.Close()
	parts, err := readParts(f, vertices, k)
	if err != nil {
		return nil, refusal.Errorf("--file %s: %w", path, err)
	}
	return parts, nil
}

func readParts(f io.Reader, vertices, k int) ([]int32, error) {
	if err := memory.Need(4 * int64(vertices)); err != nil {
		return nil, err
	}
	parts := make([]int32, 0, vertices)
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		text := strings.TrimSpace(lines.Text())
		number := len(parts) + 1
		if len(parts) == vertices {
			return nil, fmt.Errorf("line %d follows those of the %d vertices; write one line for each",
				number, vertices)
		}
		p, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("line %d: %q is no number of a partition; write one number on each line",
				number, shortened(text))
		}
		if p < 0 || p >= int64(k) {
			return nil, fmt.Errorf("line %d: partition %d is not one of the %d from 0; is -k right?", number,
				p, k)
		}
		parts = append(parts, int32(p))
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, fmt.Errorf("line %d is too long for a number; write one number on each line", len(parts)+1)
	} else if err != nil {
		return nil, err
	}
	if len(parts) < vertices {
		return nil,
			fmt.Errorf("it ends after line %d, but the graph has %d vertices; write one line for each",
				len(parts), vertices)
	}
	return parts, nil
}

// shortened shortens a text for an error.
func shortened(text string) string {
	const enough = 40
	if len(text) > enough {
		return text[:enough] + "…"
	}
	return text
}
