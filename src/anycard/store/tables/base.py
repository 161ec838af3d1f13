from sqlalchemy import BigInteger, Integer, MetaData

Id = BigInteger().with_variant(
    Integer(), "sqlite"
)  # 64 bits on both; SQLite makes only a plain INTEGER key its own row id

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    }
)
