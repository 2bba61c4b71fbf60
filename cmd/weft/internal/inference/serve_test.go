package inference

import (
	"strings"
	"testing"

	"weft/internal/assert"
	"weft/internal/require"
)

// TestInferencesAtATime: a core is left to requests, unless --threads says how many threads compute.
func TestInferencesAtATime(t *testing.T) {
	for _, c := range []struct {
		flags         []string
		threads, want int
	}{
		{nil, 1, 1},
		{nil, 2, 1},
		{nil, 16, 15},
		{[]string{"--threads", "4"}, 4, 4},
		{[]string{"--threads", "1"}, 1, 1},
	} {
		cmd := NewServe()
		require.NoError(t, cmd.ParseFlags(c.flags))
		assert.Equal(t, c.want, new(serveCommand).workers(cmd, c.threads), "%v of %d", c.flags, c.threads)
	}
}

// TestServeOptions: the flags are those of the server.
func TestServeOptions(t *testing.T) {
	s := &serveCommand{}
	cmd := s.command()
	flags := []string{"--queue", "7", "--host", "a", "--host", "b.example", "--threads", "3"}
	require.NoError(t, cmd.ParseFlags(flags))
	o := s.options(cmd, 3)
	assert.Equal(t, 7, o.Queue)
	assert.Equal(t, 3, o.Workers)
	assert.Equal(t, "a b.example", strings.Join(o.Hosts, " "))
	assert.Equal(t, true, o.OnlyLocal)
	require.NoError(t, cmd.ParseFlags([]string{"--listen", "0.0.0.0"}))
	assert.Equal(t, false, s.options(cmd, 3).OnlyLocal)
}
