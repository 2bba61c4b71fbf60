#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static const int asked[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

static void interrupted(int s)
{
	static const char line[] = "weft: interrupted\n";
	if (write(STDERR_FILENO, line, strlen(line)) < 0) {} // there is nobody else to tell
	_exit(130);
}

enum { least_files = 16 }; // open at once: any command opens some, and Go's runtime four

static void need_files(void)
{
	struct rlimit files; // of which Go raises the soft limit to the hard one
	if (getrlimit(RLIMIT_NOFILE, &files) || files.rlim_max >= least_files) return;
	dprintf(STDERR_FILENO, "weft: %d files may be open at once in this process, and it needs %d; allow it more: ulimit -n %d\n", (int)files.rlim_max,
		least_files, least_files);
	_exit(2);
}

static void before_go(void)
{
	need_files();
	struct sigaction answer = {.sa_handler = interrupted, .sa_flags = SA_ONSTACK};
	for (unsigned i = 0; i < sizeof asked / sizeof *asked; i++) {
		struct sigaction inherited;
		if (!sigaction(asked[i], NULL, &inherited) && inherited.sa_handler == SIG_DFL) sigaction(asked[i], &answer, NULL);
	}
	sigset_t later;
	sigemptyset(&later);
	sigaddset(&later, SIGUSR1);
	sigprocmask(SIG_BLOCK, &later, NULL);
}

// The loader calls it before the initialisers of the libraries, and these before Go's runtime.
__attribute__((section(".preinit_array"), used)) static void (*const first)(void) = before_go;
