/// Which Martlet this is.
public enum ProductVersion {
    public static let text = "0.2.0"
}
