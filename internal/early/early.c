#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

static const int asked[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

static void interrupted(int s)
{
	static const char line[] = "weft: interrupted\n";
	if (write(STDERR_FILENO, line, strlen(line)) < 0) {} // a failed write cannot be reported anywhere else
	_exit(130);
}

enum { least_files = 13 }; // how many files must be available: any command opens some, and Go's runtime four

static void need_files(void)
{
	struct rlimit files; // Go raises the soft limit to the hard one
	if (getrlimit(RLIMIT_NOFILE, &files)) return;
	struct rlimit raised = {files.rlim_max, files.rlim_max};
	int opened[least_files], n = 0;
	setrlimit(RLIMIT_NOFILE, &raised);
	while (n < least_files && (opened[n] = eventfd(0, 0)) >= 0) n++;
	for (int i = 0; i < n; i++) close(opened[i]);
	setrlimit(RLIMIT_NOFILE, &files);
	if (n == least_files) return;
	dprintf(STDERR_FILENO, "weft: %d files can be opened in this process, and it needs %d; ", n, least_files);
	if (files.rlim_max == RLIM_INFINITY) dprintf(STDERR_FILENO, "the system has no more: close some\n");
	else
		dprintf(STDERR_FILENO, "allow it more: ulimit -n %llu\n",
		        (unsigned long long)files.rlim_max + least_files - n);
	_exit(2);
}

// The least that a small run with two threads needs. Most of it are addresses that Go's runtime only
// reserves.
static const struct { int limit; const char *of, *flag; rlim_t least; } sizes[] = {
	{RLIMIT_AS, "addresses", "-v", 2200000000},
	{RLIMIT_DATA, "memory", "-d", 200000000},
};

static void need_memory(void)
{
	for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		struct rlimit size;
		rlim_t least = sizes[i].least;
		if (getrlimit(sizes[i].limit, &size) || size.rlim_cur >= least) continue;
		dprintf(STDERR_FILENO,
		        "weft: this process may have %d MB of %s, and it needs %d MB; allow it more: ulimit %s %d\n",
		        (int)(size.rlim_cur / 1000000), sizes[i].of, (int)(least / 1000000), sizes[i].flag,
		        (int)(least / 1024) + 1);
		_exit(2);
	}
}

static void before_go(void)
{
	need_files();
	need_memory();
	struct sigaction answer = {.sa_handler = interrupted, .sa_flags = SA_ONSTACK};
	for (unsigned i = 0; i < sizeof asked / sizeof *asked; i++) {
		struct sigaction inherited;
		if (!sigaction(asked[i], NULL, &inherited) && inherited.sa_handler == SIG_DFL)
			sigaction(asked[i], &answer, NULL);
	}
	sigset_t later;
	sigemptyset(&later);
	sigaddset(&later, SIGUSR1);
	sigprocmask(SIG_BLOCK, &later, NULL);
}

// The loader calls the functions of this section before the initialisers of libraries, and these before Go's
// runtime.
__attribute__((section(".preinit_array"), used)) static void (*const first)(void) = before_go;
