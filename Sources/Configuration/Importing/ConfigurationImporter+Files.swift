internal import Platform

/// The files that lines name.
extension ConfigurationImporter {
    /// Plans a copy, and returns the path of it.
    mutating func copy(_ path: String, _ purpose: ConfigurationImport.Purpose, option: String, line: String) -> String {
        let place = source.place(of: path, besides: directory)
        guard source.kind(place) == .file else {
            addMissing(place, option: option, line: line)
            return path
        }
        return copied(place, purpose)
    }

    /// Copies a certificate or a key, where it cannot stay where it is.
    mutating func copyIfNeeded(_ path: String, option: String, line: String) -> String {
        let place = source.place(of: path, besides: directory)
        guard source.kind(place) == .file else {
            addMissing(place, option: option, line: line)
            return path
        }
        if !isMosquittos(path), source.isReadable(place) { return place }
        if !isMosquittos(path) {
            plan.remarks.append(
                "\(line): \(place) is not mosquitto's, and the broker's user may not read it, so a copy is taken. "
                    + "Whoever renews it has to renew the "
                    + "copy too.")
        }
        return copied(place, .certificate)
    }

    /// Copies a directory of certificates, where it cannot stay where it is.
    mutating func copyDirectoryIfNeeded(_ path: String, option: String, line: String) -> String {
        let place = source.place(of: path, besides: directory)
        guard source.kind(place) == .directory, let names = try? source.files.names(inDirectory: place) else {
            addMissing(place, option: option, line: line)
            return path
        }
        let files = names.sorted().map { Self.joined(place, $0) }.filter { source.kind($0) == .file }
        if !isMosquittos(path), files.allSatisfy(source.isReadable) { return place }
        let destination = freeDestination(for: place, below: "certs")
        for file in files where destinations[file] == nil {
            destinations[file] = "\(destination)/\(Self.name(of: file))"
            plan.copies.append(
                ConfigurationImport.Copy(
                    source: file, destination: "\(destination)/\(Self.name(of: file))", purpose: .certificate, text: nil))
        }
        destinations[place] = destination
        return destination
    }

    /// Plans the copy of what the broker writes itself; where it is not there yet, the broker makes it.
    mutating func copyState(_ path: String) -> String {
        let place = source.place(of: path, besides: directory)
        let destination = destinations[place] ?? Self.joined(target.storeDirectory, Self.name(of: place))
        if destinations.updateValue(destination, forKey: place) == nil, source.kind(place) == .file {
            plan.copies.append(ConfigurationImport.Copy(source: place, destination: destination, purpose: .state, text: nil))
        }
        return destination
    }

    func isMissing(_ path: String) -> Bool { source.kind(source.place(of: path, besides: directory)) == .missing }

    mutating func remarkIfUnreadable(_ path: String, option: String, line: String) {
        let place = source.place(of: path, besides: directory)
        if isMosquittos(path) || !source.isReadable(place) {
            plan.remarks.append("\(line): \(option) \(place) stays where it is; see that the broker's user may read all of it.")
        }
    }

    /// Whether a path is below mosquitto's own directories: that of its configuration, those of its packages and of its container.
    func isMosquittos(_ path: String) -> Bool {
        let place = source.place(of: path, besides: directory)
        let directories = [directory] + OtherHolder.directories + source.places.map(\.place) + source.places.map(\.name)
        return directories.contains { $0 != "/" && (path.hasPrefix("\($0)/") || place.hasPrefix("\($0)/")) }
    }

    /// Whether no include_dir has come before.
    mutating func isFirstInclude() -> Bool { destinations.updateValue(target.includeDirectory, forKey: "include_dir") == nil }

    private mutating func copied(_ place: String, _ purpose: ConfigurationImport.Purpose) -> String {
        if let destination = destinations[place] { return destination }
        let destination = freeDestination(for: place, below: purpose == .certificate ? "certs" : nil)
        destinations[place] = destination
        plan.copies.append(ConfigurationImport.Copy(source: place, destination: destination, purpose: purpose, text: nil))
        return destination
    }

    /// Where a file goes: to the same place below the target as it has below mosquitto's configuration, else by its name.
    private func freeDestination(for place: String, below folder: String?) -> String {
        let base = folder.map { "\(target.directory)/\($0)" } ?? target.directory
        var wanted = [
            "\(base)/\(Self.name(of: place))", "\(base)/\(Self.name(of: Self.directory(of: place)))-\(Self.name(of: place))",
        ]
        if place.hasPrefix("\(directory)/") { wanted.insert("\(target.directory)/\(place.dropFirst(directory.count + 1))", at: 0) }
        let taken = Set(destinations.values).union([target.mainFile, target.includeDirectory])
        if let free = wanted.first(where: { !taken.contains($0) }) { return free }
        return (2...).lazy.map { "\(wanted[0])-\($0)" }.first { !taken.contains($0) } ?? wanted[0]
    }

    private mutating func addMissing(_ place: String, option: String, line: String) {
        let isContainers =
            place.hasPrefix("/mosquitto/") || place.hasPrefix("/data/") || place.hasPrefix("/share/") || place.hasPrefix("/ssl/")
        let hint =
            isContainers
            ? " mosquitto seems to run in a container: say where its directory is on this machine, such as --map /mosquitto=/srv/mosquitto."
            : ""
        plan.obstacles.append("\(line): \(option): \(place) is not there.\(hint)")
    }
}
