/// The user that the environment gives the broker, so that a container needs no file to begin with.
///
///     MARTLET_USER=anna
///     MARTLET_PASSWORD_FILE=/run/secrets/password        or MARTLET_PASSWORD=…
///
/// There is such a user at every listener, and an administrator over HTTP; whoever has no login is refused, unless a listener has
/// `listener_allow_anonymous true`. A user of the same name in a `password_file` comes first.
public struct FirstUser: Sendable, Equatable {
    public let name: String
    public let password: String
    /// Where the password stands; nil for in the environment.
    public var passwordFile: String?

    static let nameVariable = "MARTLET_USER"
    static let passwordVariable = "MARTLET_PASSWORD"
    static let passwordFileVariable = "MARTLET_PASSWORD_FILE"

    public init(name: String, password: String) { (self.name, self.password) = (name, password) }

    /// The one of the environment; nil for none. Throws what is wrong with it. A variable without text counts as not given: compose files
    /// write them so.
    public init?(environment: [String: String], files: any FileSource) throws(FirstUserRefusal) {
        func given(_ name: String) -> String? { environment[name].flatMap { $0.isEmpty ? nil : $0 } }
        let passwords = [Self.passwordVariable, Self.passwordFileVariable].filter { given($0) != nil }
        guard let name = given(Self.nameVariable) else {
            guard let orphan = passwords.first else { return nil }
            throw FirstUserRefusal(variable: orphan, message: "it is the password of \(Self.nameVariable), which is not set.")
        }
        guard LineReader.complaint(about: name) == nil, name == name.trimmed, !name.contains(":"), !name.hasPrefix("#"),
            name.utf8.count <= Limits.valueBytesMax
        else {
            throw FirstUserRefusal(
                variable: Self.nameVariable,
                message: "a user's name holds no colon and no control character, begins with no #, and has no blanks at its ends.")
        }
        guard let variable = passwords.first else {
            throw FirstUserRefusal(
                variable: Self.nameVariable,
                message:
                    "\(name.quoted) needs a password: set \(Self.passwordFileVariable) to a file that holds it, or \(Self.passwordVariable)."
            )
        }
        guard passwords.count == 1 else {
            throw FirstUserRefusal(
                variable: Self.passwordVariable,
                message: "\(Self.passwordFileVariable) is set too; one of the two gives the password.")
        }
        self.name = name
        guard variable == Self.passwordFileVariable else {
            password = given(variable) ?? ""
            return
        }
        passwordFile = given(variable)
        do throws(SecretFiles.Refusal) {
            password = try SecretFiles(files: files).contents(ofFile: given(variable) ?? "")
        } catch {
            throw FirstUserRefusal(variable: variable, message: error.message)
        }
    }
}

/// The reason for which the user that the environment names is refused.
public struct FirstUserRefusal: Error, Sendable, Equatable {
    let variable: String
    let message: String

    /// As the log and the terminal show it.
    public var diagnostic: Diagnostic { Diagnostic(severity: .error, file: "", option: variable, message: message) }
}

extension BrokerConfiguration {
    /// Gives every listener the user, and asks for a login on all.
    public mutating func add(_ user: FirstUser) {
        note(user)
        for index in listeners.indices { listeners[index].security.add(user, isOpened: false) }
    }

    /// Takes the user up where listeners are not concerned.
    mutating func note(_ user: FirstUser) {
        if let path = user.passwordFile {
            general.secretFiles.append(SecretFile(option: FirstUser.passwordFileVariable, path: path))
        }
        security.add(user, isOpened: false)
        if administration.users[user.name] == nil { administration.users[user.name] = .admin }
    }
}

extension SecurityConfiguration {
    /// - Parameter isOpened: whether lines of the listener's own say who needs no login.
    mutating func add(_ user: FirstUser, isOpened: Bool) {
        firstUser = user
        if !isOpened { allowsAnonymous = false }
    }
}
