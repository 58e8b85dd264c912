public import BrokerModel
public import MQTTCodec
public import Security

/// Checks user names and passwords by dynamic security, and leaves users that it does not know to whoever is asked next.
///
///     no name or no password, or an unknown user ─► the next, or refused
///     disabled, another Client Identifier, a wrong password ─► refused
public final class DirectoryAuthenticator: Authenticator {
    private let directory: SecurityDirectory
    private let next: (any Authenticator)?
    private let workers: WorkerPool
    /// What an unknown user's password is checked against, so that it takes as long as a known one's.
    private let impossible = StoredPassword.impossible()

    public init(directory: SecurityDirectory, next: (any Authenticator)?, workers: WorkerPool) {
        (self.directory, self.next, self.workers) = (directory, next, workers)
    }

    public func authenticate(
        _ request: AuthenticationRequest, as subject: LoginSubject, reply: @escaping @Sendable (AuthenticationOutcome) -> Void
    ) -> PasswordCheck? {
        guard case .password(let userName, let password) = request.step, let userName, let password else {
            if let next { return next.authenticate(request, as: subject, reply: reply) }
            var hasName = false
            if case .password(_?, _) = request.step { hasName = true }
            reply(.refused(.notAuthorized, because: hasName ? .noPassword : .noUserName))
            return nil
        }
        let entry = directory.entry(of: userName)
        if entry == nil, let next { return next.authenticate(request, as: subject, reply: reply) }
        let known = entry?.password
        let check = PasswordCheck(of: subject) { [directory, impossible] in
            switch (known ?? impossible).matches(password) {
            case true?:
                let isGood = known.map { known in
                    directory.confirm(userName, known, request.clientIdentifier) {
                        reply(.accepted(userName: userName, data: nil))
                    }
                }
                if isGood != true { reply(.refused(.notAuthorized)) }
            case false?: reply(.refused(.notAuthorized, because: entry == nil ? .unknownUser : .wrongPassword))
            case nil: reply(.refused(.serverBusy))
            }
        } refuse: {
            reply(.refused(.serverBusy))
        }
        workers.submit(check)
        return check
    }

    /// Whoever is not to stay has been told so by what changed it.
    public func keeps(_ userName: EncodedString, of earlier: any Authenticator) -> Bool {
        guard let earlier = earlier as? DirectoryAuthenticator, earlier.directory === directory else { return false }
        if let entry = directory.entry(of: userName) { return !entry.isDisabled }
        guard let next, let before = earlier.next else { return false }
        return next.keeps(userName, of: before)
    }
}
