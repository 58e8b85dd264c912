import ArgumentParser

/// Where a store is: in the directory that is named, or where the broker's configuration has it.
struct StorePlace: ParsableArguments {
    @OptionGroup var configuration: StoreConfiguration

    @Argument(help: "The store's directory.", completion: .directory)
    var directory: String?

    func validate() throws { try configuration.require(or: directory) }

    /// The directory.
    func path() throws -> String { try directory ?? configuration.location() }
}
