/// Whether a row does what its name says.
public enum OptionStatus: Sendable, Equatable {
    case supported
    /// It works. The text says what to write instead.
    case deprecated(String)
    /// It is accepted, so that the file can stay as it is. The text says why nothing has to happen.
    case withoutEffect(String)
}
