<?php
/*
 * Reports the runs of PHPUnit in a check to the harness.
 *
 * PHP runs this file before every script of a check, because PHP_INI_SCAN_DIR names a folder with a setting
 * for it. It adds nothing unless the script is PHPUnit: then PHPUnit writes its log in JUnit's format to a file
 * without a name, which is read when PHPUnit has ended. PROVOST_REPORT names the pipe that reports go to.
 * PROVOST_TESTS is `all` if every test has to be run, also after a failed one.
 */

(static function (): void {
    $pipe = getenv('PROVOST_REPORT');
    $words = $_SERVER['argv'] ?? [];
    if (!$pipe || PHP_SAPI !== 'cli' || getenv('PROVOST_INSIDE') || !is_file($words[0] ?? '')) {
        return;
    }
    if (!preg_match('/^phpunit(-[0-9.]+)?(\.phar)?$/', basename($words[0]))) {
        return;
    }
    if (preg_grep('/^(-h|--help|--version|--list-.*|--atleast-version|--check-version|--generate-.*|--migrate-.*)$/', $words)) {
        return;
    }

    $number = bin2hex(random_bytes(6));
    $line = static function (string ...$fields): string {
        $fields = array_map(static fn ($field) => strtr($field, "\n\x1f", '  '), $fields);
        return substr(implode("\x1f", $fields), 0, 3999) . "\n";
    };
    $write = static function (array $lines) use ($pipe): void {
        $to = @fopen($pipe, 'wn');
        if (!$to) {
            return;
        }
        stream_set_blocking($to, true);
        // A write of at most 4096 bytes is not mixed with those of others.
        $chunk = '';
        foreach ($lines as $each) {
            if (strlen($chunk) + strlen($each) > 4096) {
                fwrite($to, $chunk);
                $chunk = '';
            }
            $chunk .= $each;
        }
        fwrite($to, $chunk);
        fclose($to);
    };

    $write([$line('start', 'phpunit', $number, getcwd(), ...array_slice($words, 1))]);

    // The configuration, as PHPUnit looks for it, and the log that the check itself asks for.
    $configuration = null;
    $copy = null;
    $kept = [];
    for ($at = 0; $at < count($words); $at += 1) {
        $word = $words[$at];
        $kept[] = $word;
        if (preg_match('/^(?:--configuration=|-c=?)(.+)$/', $word, $found)) {
            $configuration = $found[1];
        } elseif ($word === '--configuration' || $word === '-c') {
            $configuration = $words[$at + 1] ?? null;
        } elseif (strpos($word, '--log-junit') === 0) {
            array_pop($kept);
            $copy = $word === '--log-junit' ? ($words[$at += 1] ?? '') : substr($word, strlen('--log-junit='));
        }
    }
    $words = $kept;
    $folder = $configuration !== null && is_dir($configuration) ? $configuration : getcwd();
    $places = ["$folder/phpunit.xml", "$folder/phpunit.dist.xml", "$folder/phpunit.xml.dist"];
    if ($configuration !== null && is_file($configuration)) {
        $places = [$configuration];
    }
    $places = in_array('--no-configuration', $words, true) ? [] : array_filter($places, 'is_file');
    $place = reset($places);
    $settings = $place ? (string) file_get_contents($place) : '';

    if (getenv('PROVOST_TESTS') === 'all') {
        $stops = '/^--stop-on-(defect|error|failure|warning|risky|deprecation|notice|skipped|incomplete)/';
        $words = array_values(preg_grep($stops, $words, PREG_GREP_INVERT));
        // The configuration cannot be overruled: then some tests do not run, and no list is complete.
        if (preg_match('/stopOn\w+\s*=\s*["\'](true|1)/i', $settings)) {
            return;
        }
    }
    // PHPUnit writes one such log: the check and the project get theirs from here.
    $names = '/<junit\s[^>]*outputFile\s*=\s*["\']([^"\']+)|<log\s[^>]*type\s*=\s*["\']junit["\'][^>]*target\s*=\s*["\']([^"\']+)/';
    if ($copy === null && !in_array('--no-logging', $words, true) && preg_match($names, $settings, $found)) {
        $copy = end($found)[0] === '/' ? end($found) : dirname($place) . '/' . end($found);
    }
    $log = tmpfile();
    $inode = $log ? fstat($log)['ino'] : 0;
    $is_log = static fn ($fd): bool => ctype_digit($fd) && @stat("/proc/self/fd/$fd")['ino'] === $inode;
    $fds = array_values(array_filter($log ? scandir('/proc/self/fd') : [], $is_log));
    if (!$fds) {
        return;
    }
    array_splice($words, 1, 0, ["--log-junit=php://fd/$fds[0]"]);
    $_SERVER['argv'] = $GLOBALS['argv'] = $words;
    $_SERVER['argc'] = $GLOBALS['argc'] = count($words);
    putenv("PROVOST_INSIDE=$number");
    $process = getmypid();
    $top = getcwd();

    register_shutdown_function(static function () use ($number, $line, $write, $log, $copy, $process, $top): void {
        if (getmypid() !== $process) {
            return;
        }
        putenv('PROVOST_INSIDE');
        rewind($log);
        $text = (string) stream_get_contents($log);
        if ($copy !== null && $copy !== '') {
            $copy = $copy[0] === '/' || strpos($copy, '://') ? $copy : "$top/$copy";
            @mkdir(dirname($copy), 0777, true);
            @file_put_contents($copy, $text);
        }
        $document = new DOMDocument();
        if ($text === '' || !@$document->loadXML($text, LIBXML_PARSEHUGE)) {
            return;
        }
        $lines = [];
        $tests = 0;
        foreach ($document->getElementsByTagName('testcase') as $case) {
            $has = static fn (string $name): bool => $case->getElementsByTagName($name)->length > 0;
            $result = 'passed';
            // A test without assertions is an error of its own type, and no failure.
            $risky = 0;
            foreach ($case->getElementsByTagName('error') as $error) {
                $risky += (int) preg_match('/Risky|OutputError|Cover/', $error->getAttribute('type'));
            }
            if ($has('failure') || $case->getElementsByTagName('error')->length > $risky) {
                $result = 'failed';
            } elseif ($risky > 0 || $has('skipped') || $has('warning')) {
                $result = 'skipped';
            }
            $class = $case->getAttribute('class');
            $name = $case->getAttribute('name');
            $lines[] = $line('test', 'phpunit', $number, $result, $class === '' ? $name : "$class::$name");
            $tests += 1;
        }
        $told = 0;
        foreach ($document->documentElement->childNodes as $suite) {
            $told += $suite instanceof DOMElement ? (int) $suite->getAttribute('tests') : 0;
        }
        if ($told === $tests) {
            $write([...$lines, $line('list', 'phpunit', $number, (string) $tests)]);
        }
    });
})();
