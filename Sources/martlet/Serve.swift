import ArgumentParsing

/// `martlet serve`: the same as `martlet` alone.
struct Serve: ParsableCommand {
    static let configuration = CommandConfiguration(commandName: "serve", abstract: "Run the broker, as martlet alone does.")

    @OptionGroup var options: ServeOptions

    func run() throws { try ServerStart(options).run() }
}
