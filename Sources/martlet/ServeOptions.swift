import ArgumentParsing

/// What the command line can say about running the broker.
struct ServeOptions: ParsableArguments {
    @Option(
        name: [.short, .customLong("config-file")], help: ArgumentHelp("The configuration file.", valueName: "file"),
        completion: .file)
    var configFile: String?

    @Option(
        name: .shortAndLong,
        help: "A port from 1 to 65535 to listen on, if the file has no listener; may be given up to 10 times.")
    var port: [UInt16] = []

    @Flag(name: [.short, .long], help: "Log everything, whatever the configuration file says.")
    var verbose = false

    @Flag(name: [.short, .long], help: "Log nothing.")
    var quiet = false

    @Flag(name: [.short, .long], help: "Run in the background.")
    var daemon = false

    @Flag(help: "Check the configuration and the files it names, say what is wrong, and exit: 0 if all is right.")
    var testConfig = false

    @Option(help: "How many event loops to run; 0 for one a core (one on one or two cores).")
    var threads: Int?

    @Option(
        name: .customLong("tls-keylog"),
        help: ArgumentHelp("Append the secrets of all TLS connections to a file, for debugging with Wireshark.", valueName: "file"),
        completion: .file)
    var tlsKeyLog: String?

    @Flag(help: "Start a damaged store with what is intact; a copy of the damaged files is kept.")
    var repair = false

    func validate() throws {
        guard !port.contains(0) else { throw ValidationError("-p takes a port from 1 to 65535, not 0.") }
        guard port.count <= 10 else { throw ValidationError("-p may be given at most 10 times, not \(port.count).") }
        guard !(verbose && quiet) else { throw ValidationError("-v and -q contradict each other; give one of them.") }
        if let threads, !(0...64).contains(threads) {
            throw ValidationError("--threads takes 0 to 64, not \(threads).")
        }
    }
}
