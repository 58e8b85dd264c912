import ArgumentParser

@main
struct Martlet: ParsableCommand {
    func run() throws {}
}
